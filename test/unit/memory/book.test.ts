import { describe, expect, test } from 'vitest'
import { MemoryBook } from '../../../src/agent-core/memory/book.ts'
import type { MachineMemory, StartRequest } from '../../../src/agent-core/memory/decide.ts'
import { growsNoFaster, growth } from '../../support/processor-time.ts'

const gb = 1e9

function request(key: string, needGb: number | undefined, more: Partial<StartRequest> = {}): StartRequest {
  const needBytes = needGb === undefined ? undefined : needGb * gb
  return { key, uid: `uid of ${key}`, needBytes, priority: 'normal', since: 0, enforcement: 'enforce', ...more }
}

function bookWith(machine: { budget: number; available?: number; pressure?: MachineMemory['pressure'] }) {
  const freed: string[][] = []
  const { budget, available = 1000, pressure = 'normal' } = machine
  const book = new MemoryBook({ budgetBytes: budget * gb, availableBytes: available * gb, pressure }, (keys) =>
    freed.push([...keys]),
  )
  return { book, freed }
}

describe('admission', () => {
  test('counts what starts, and equality fits', () => {
    const { book } = bookWith({ budget: 36 })
    expect(book.admit(request('ns/a', 20))).toEqual({ admitted: true })
    expect(book.admit(request('ns/b', 16.1))).toMatchObject({
      admitted: false,
      reason: 'InsufficientMemory',
      place: 1,
      message: 'Needs 16.1 GB, 16.0 GB left in the budget of 36.0 GB (1st waiting)',
      shortage: { own: 0, budget: 0.1 * gb, available: 0 },
    })
    expect(book.admit(request('ns/c', 16))).toEqual({ admitted: true })
  })

  test.for<
    [what: string, asked: number, machine: Parameters<typeof bookWith>[0], own: number | undefined, brief: string]
  >([
    ['the budget is short', 17, { budget: 36 }, undefined, 'needs 17.0 GB, 16.0 GB free'],
    ['memory is short', 17, { budget: 99, available: 30 }, undefined, 'needs 17.0 GB, 10.0 GB free'],
    ['both are short', 17, { budget: 36, available: 30 }, undefined, 'needs 17.0 GB, 10.0 GB free'],
    ['it is larger than the budget', 40, { budget: 36 }, undefined, 'needs 40.0 GB of a budget of 36.0 GB'],
    ['it is larger than its own budget', 9, { budget: 36 }, 8, 'needs 9.0 GB of a budget of 8.0 GB'],
  ])('is refused in a few words with a figure of its sentence: %s', ([, asked, machine, own, brief]) => {
    const { book } = bookWith(machine)
    book.admit(request('ns/a', 20))
    const answer = book.admit(request('ns/b', asked, own === undefined ? {} : { ownBudgetBytes: own * gb }))
    if (answer.admitted) throw new Error('it fits')
    expect(answer.brief).toBe(brief)
    for (const figure of answer.brief.match(/[\d.]+ GB/g) ?? []) expect(answer.message).toContain(figure)
  })

  test('what is free is what a start may take, and no byte more', () => {
    const frees = [{ budget: 36 }, { budget: 99, available: 30 }, { budget: 20 }].map((machine) => {
      const { book } = bookWith(machine)
      book.admit(request('ns/a', 20))
      const { freeBytes } = book
      const more = book.admit({ ...request('ns/b', 0), needBytes: freeBytes + 1 })
      const all = book.admit({ ...request('ns/b', 0), needBytes: freeBytes })
      return [freeBytes / gb, more.admitted, all.admitted]
    })
    expect(frees).toEqual([
      [16, false, true],
      [10, false, true],
      [0, false, true],
    ])
  })

  test('counts the larger of estimate and measured footprint', () => {
    const { book } = bookWith({ budget: 36 })
    book.admit(request('ns/a', 20))
    book.ready('ns/a')
    book.measured('ns/a', 12 * gb)
    expect(book.admit(request('ns/b', 17))).toMatchObject({ admitted: false })
    book.measured('ns/a', 30 * gb)
    expect(book.admit(request('ns/c', 7))).toMatchObject({ admitted: false })
    expect(book.admit(request('ns/d', 6))).toMatchObject({ admitted: true })
  })

  test('a mapped model that serves holds no less than its estimate, and gives back what was measured', () => {
    const { book } = bookWith({ budget: 100, available: 30 })
    book.admit(request('ns/a', 20, { mappedBytes: 20 * gb, priority: 'low' }))
    const held = () => book.held().map(({ heldBytes, residentBytes }) => [heldBytes, residentBytes])
    book.measured('ns/a', 1 * gb)
    const whileItStarts = held()
    book.ready('ns/a')
    book.observe({ availableBytes: 20 * gb })
    const ready = held()
    expect([whileItStarts, ready]).toEqual([[[gb, gb]], [[20 * gb, gb]]])
    book.measured('ns/a', 21 * gb)
    expect(held()).toEqual([[21 * gb, 21 * gb]])
  })

  test('what a server takes past its need takes effect at once, of a mapped one what it takes past what it showed when it was ready', () => {
    const { book } = bookWith({ budget: 60 })
    book.admit(request('ns/a', 20))
    book.admit(request('ns/b', 20, { mappedBytes: 16 * gb }))
    const taken = () => book.held().map(({ committedBytes, excessBytes }) => [committedBytes / gb, excessBytes / gb])
    for (const key of ['ns/a', 'ns/b']) book.measured(key, 10 * gb)
    expect(taken()).toEqual([
      [20, 0],
      [20, 0],
    ])
    for (const key of ['ns/a', 'ns/b']) book.ready(key)
    book.measured('ns/b', 5 * gb)
    for (const key of ['ns/a', 'ns/b']) book.measured(key, 22 * gb)
    expect(taken()).toEqual([
      [22, 2],
      [37, 17],
    ])
    expect(book.admit(request('ns/c', 2))).toMatchObject({ admitted: false, shortage: { budget: gb } })
  })

  test('counts servers found running even beyond the budget, and never refuses them', () => {
    const { book } = bookWith({ budget: 36 })
    book.adopt(request('ns/a', 30))
    book.adopt(request('ns/b', 30))
    expect(book.admit(request('ns/c', 1))).toMatchObject({
      admitted: false,
      message: 'Needs 1.0 GB, the budget of 36.0 GB is exceeded by 24.0 GB (1st waiting)',
    })
  })

  test('counts a server found loading as one that still takes what it needs', () => {
    const { book } = bookWith({ budget: 100, available: 30 })
    book.adopt({ ...request('ns/a', 10), phase: 'running' })
    book.adopt({ ...request('ns/c', 20), phase: 'starting' })
    expect(book.state()).toMatchObject({ committedBytes: 30 * gb, promisedBytes: 20 * gb })
    expect(book.admit(request('ns/b', 11))).toMatchObject({ shortage: { available: gb } })
    book.measured('ns/c', 15 * gb)
    book.observe({ availableBytes: 16 * gb })
    expect(book.state().promisedBytes).toBe(5 * gb)
  })

  test('a start meets what is available less what other starts will still take', () => {
    const { book } = bookWith({ budget: 100, available: 30 })
    book.admit(request('ns/a', 20))
    expect(book.admit(request('ns/b', 11))).toMatchObject({
      admitted: false,
      message:
        'Needs 11.0 GB, 10.0 GB really available (30.0 GB less 20.0 GB that starting models will take) (1st waiting)',
    })
    book.measured('ns/a', 15 * gb)
    book.observe({ availableBytes: 16 * gb })
    expect(book.admit(request('ns/b', 11))).toEqual({ admitted: true })
  })

  test('a figure of available memory from before a server was ready does not count its memory as free again', () => {
    const { book } = bookWith({ budget: 100, available: 30 })
    book.admit(request('ns/a', 20))
    book.measured('ns/a', 20 * gb)
    book.ready('ns/a')
    expect(book.admit(request('ns/b', 11))).toMatchObject({ admitted: false })
    book.observe({ availableBytes: 12 * gb })
    expect(book.admit(request('ns/b', 11))).toEqual({ admitted: true })
  })

  test('says that something does not fit even alone, and gives it no place', () => {
    const { book } = bookWith({ budget: 36 })
    const answer = book.admit(request('ns/huge', 44))
    expect(answer).toMatchObject({
      admitted: false,
      fitsAlone: false,
      message: 'Needs 44.0 GB, more than the whole budget of 36.0 GB',
    })
    expect(answer).toHaveProperty('place', undefined)
    book.admit(request('ns/a', 30))
    expect(book.admit(request('ns/b', 10))).toMatchObject({ place: 1 })
  })

  test('nothing starts while pressure is critical, and everything that fits is named when it has passed', () => {
    const { book, freed } = bookWith({ budget: 36, pressure: 'critical' })
    expect(book.admit(request('ns/a', 1))).toMatchObject({
      admitted: false,
      reason: 'MemoryPressure',
      message: 'Memory pressure is critical: nothing new is started until it has passed (1st waiting)',
    })
    expect(book.admit(request('ns/b', 1, { since: 1, enforcement: 'warn' }))).toMatchObject({
      reason: 'MemoryPressure',
    })
    expect(freed).toEqual([])
    book.observe({ pressure: 'warning' })
    expect(freed).toEqual([['ns/a', 'ns/b']])
  })

  test('a second start of the same key gives back what the first one held', () => {
    const { book } = bookWith({ budget: 36 })
    book.admit(request('ns/a', 30))
    expect(book.admit(request('ns/a', 36))).toEqual({ admitted: true })
    expect(book.state().committedBytes).toBe(36 * gb)
  })
})

describe('a start in the place of what runs for it', () => {
  /** One that was estimated at 20 GB runs, and 10 GB are available besides. */
  function running(measuredGb?: number) {
    const { book } = bookWith({ budget: 100, available: 30 })
    book.admit(request('ns/a', 20))
    book.ready('ns/a')
    if (measuredGb !== undefined) book.measured('ns/a', measuredGb * gb)
    book.observe({ availableBytes: 10 * gb })
    return book
  }
  const shortBy = (book: MemoryBook, needGb: number) =>
    book.refusalInstead(request('ns/a', needGb))?.shortage.available ?? 0

  test.each([
    ['less than was estimated', 12, 22],
    ['more than was estimated', 25, 35],
    ['as nobody measured it, what was estimated', undefined, 30],
  ])('gets back what that really holds: %s', (_, measuredGb, roomGb) => {
    const book = running(measuredGb)
    const before = book.state()
    expect([shortBy(book, roomGb), shortBy(book, roomGb + 1)]).toEqual([0, gb])
    expect(book.state()).toEqual(before)
  })
})

describe('memory that several services share', () => {
  const shared = { sharedAs: 'the daemon, the model' }

  test('counts once, and the next service takes nothing more, however little is left', () => {
    const { book } = bookWith({ budget: 36, available: 30 })
    book.admit(request('ns/a', 20, shared))
    expect(book.admit(request('ns/b', 20, shared))).toEqual({ admitted: true })
    expect(book.state()).toMatchObject({ committedBytes: 20 * gb, promisedBytes: 20 * gb })
    expect(book.admit(request('ns/c', 16.1))).toMatchObject({
      message: expect.stringContaining('16.0 GB left in the budget') as unknown,
    })
    expect(book.admit(request('ns/d', 10.1))).toMatchObject({
      message: expect.stringContaining('10.0 GB really available') as unknown,
    })
    book.observe({ budgetBytes: 10 * gb, availableBytes: 1 * gb })
    expect(book.admit(request('ns/e', 20, shared))).toEqual({ admitted: true })
    expect(book.admit(request('ns/f', 20, { ...shared, ownBudgetBytes: 19 * gb }))).toMatchObject({
      admitted: false,
      shortage: { own: gb, budget: 0, available: 0 },
    })
    expect(book.held().map(({ shared: by }) => by?.keys)).toEqual(
      ['ns/a', 'ns/b', 'ns/e'].map(() => ['ns/a', 'ns/b', 'ns/e']),
    )
  })

  test('is there for a service that starts as soon as any other has loaded it', () => {
    const { book } = bookWith({ budget: 36, available: 30 })
    book.admit(request('ns/a', 20, shared))
    book.measured('ns/a', 22 * gb)
    book.ready('ns/a')
    book.observe({ availableBytes: 8 * gb })
    book.admit(request('ns/b', 20, shared))
    expect(book.state()).toMatchObject({ committedBytes: 22 * gb, promisedBytes: 0 })
    expect(book.held()).toMatchObject([{ heldBytes: 22 * gb }, { heldBytes: 22 * gb }])
    book.release('ns/a')
    expect(book.state()).toMatchObject({ committedBytes: 20 * gb })
  })

  test('goes ahead of what waits, whose room it does not take', () => {
    const { book } = bookWith({ budget: 36 })
    book.admit(request('ns/a', 20, shared))
    book.admit(request('ns/b', 17, { priority: 'high' }))
    expect(book.admit(request('ns/c', 20, shared))).toEqual({ admitted: true })
    expect(book.places.get('ns/b')).toBe(1)
  })

  test('comes back with the last service that has it', () => {
    const { book, freed } = bookWith({ budget: 36, available: 16 })
    const low = { priority: 'low', ...shared } as const
    for (const key of ['ns/a', 'ns/b']) {
      book.adopt(request(key, 20, low))
      book.measured(key, 20 * gb)
    }
    expect(book.admit(request('ns/c', 30))).toMatchObject({ admitted: false })
    freed.length = 0
    book.release('ns/a')
    book.observe({ availableBytes: 16 * gb })
    expect(freed).toEqual([])
    book.release('ns/b')
    book.observe({ availableBytes: 36 * gb })
    expect(freed.at(-1)).toEqual(['ns/c'])
  })

  test('is of one kind at a time: the same weights under other settings wait until who has them gives them back', () => {
    const { book, freed } = bookWith({ budget: 100 })
    const weightsAs = 'the daemon, the file'
    const low = { sharedAs: 'small', weightsAs, priority: 'low' } as const
    const large = { sharedAs: 'large', weightsAs }
    book.admit(request('ns/a', 20, low))
    book.admit(request('ns/b', 20, low))
    expect(book.admit(request('ns/c', 30, large))).toMatchObject({
      admitted: false,
      reason: 'InsufficientMemory',
      message:
        'Needs 30.0 GB, ns/a, ns/b have the same weights in that daemon with different settings, and the daemon holds them only once: give all the same contextSize, or choose llama-server (1st waiting)',
    })
    expect(book.refusalInstead(request('ns/a', 30, large))).toBeUndefined()
    expect(book.admit(request('ns/d', 30, { sharedAs: 'other', weightsAs: 'another file' }))).toEqual({
      admitted: true,
    })
    book.release('ns/a')
    freed.length = 0
    book.release('ns/b')
    expect(freed.at(-1)).toEqual(['ns/c'])
  })
})

describe("a Model's own budget", () => {
  test('bounds what the Model itself needs', () => {
    const { book } = bookWith({ budget: 36 })
    expect(book.admit(request('ns/a', 25, { ownBudgetBytes: 24 * gb }))).toMatchObject({
      admitted: false,
      message: 'Needs 25.0 GB, the budget of its Model is 24.0 GB',
    })
    expect(book.admit(request('ns/a', 24, { ownBudgetBytes: 24 * gb }))).toEqual({ admitted: true })
  })

  test('a smaller one is no bound for the sum, a larger one replaces that of the machine for this Model only', () => {
    const { book } = bookWith({ budget: 36 })
    book.admit(request('ns/a', 20))
    expect(book.admit(request('ns/b', 10, { ownBudgetBytes: 12 * gb }))).toEqual({ admitted: true })
    expect(book.admit(request('ns/c', 15, { ownBudgetBytes: 44 * gb }))).toMatchObject({ admitted: false })
    expect(book.admit(request('ns/c', 14, { ownBudgetBytes: 44 * gb }))).toEqual({ admitted: true })
    expect(book.admit(request('ns/d', 1))).toMatchObject({ admitted: false })
  })
})

test('a larger budget of its own does not let a Model take the place of one ahead of it', () => {
  const { book, freed } = bookWith({ budget: 60 })
  book.admit(request('ns/a', 36, { ownBudgetBytes: 61 * gb }))
  book.admit(request('ns/b', 25, { priority: 'critical' }))
  book.release('ns/a')
  expect(freed).toEqual([['ns/b']])
  expect(book.admit(request('ns/a', 36, { ownBudgetBytes: 61 * gb }))).toMatchObject({ admitted: false })
  expect(book.admit(request('ns/b', 25, { priority: 'critical' }))).toEqual({ admitted: true })
  expect(freed.at(-1)).toEqual(['ns/a'])
})

describe('what cannot be checked', () => {
  test('is refused with the reason where admission is enforced, and does not wait for memory', () => {
    const { book } = bookWith({ budget: 36 })
    expect(book.admit(request('ns/a', undefined, { whyUnknown: 'the file is not here yet' }))).toMatchObject({
      admitted: false,
      reason: 'MemoryCheckFailed',
      message: 'Its memory need is not known: the file is not here yet',
    })
    expect(book.places.size).toBe(0)
  })

  test('starts with a warning where admission only warns, and counts by what is measured', () => {
    const { book } = bookWith({ budget: 36 })
    const asked = request('ns/a', undefined, { whyUnknown: 'the file is not here yet', enforcement: 'warn' })
    expect(book.admit(asked)).toEqual({
      admitted: true,
      warning: 'Its memory need is not known: the file is not here yet',
    })
    book.measured('ns/a', 30 * gb)
    expect(book.admit(request('ns/b', 7))).toMatchObject({ admitted: false })
  })

  test('without a figure of available memory an enforced start waits until there is one', () => {
    const { book, freed } = bookWith({ budget: 36 })
    book.observe({ availableBytes: undefined })
    expect(book.admit(request('ns/a', 1))).toMatchObject({ admitted: false, reason: 'MemoryCheckFailed' })
    expect(book.admit(request('ns/b', 1, { enforcement: 'warn' }))).toMatchObject({ admitted: true })
    expect(book.admit(request('ns/c', 36, { enforcement: 'warn' }))).toMatchObject({ reason: 'InsufficientMemory' })
    expect(freed).toEqual([])
    book.observe({ availableBytes: 50 * gb })
    expect(freed).toEqual([['ns/a']])
  })
})

describe('the queue', () => {
  test('is served by priority, then by age', () => {
    const { book, freed } = bookWith({ budget: 36 })
    book.admit(request('ns/old', 36))
    book.admit(request('ns/batch', 20, { priority: 'batch', since: 1 }))
    book.admit(request('ns/young', 20, { since: 3 }))
    book.admit(request('ns/elder', 20, { since: 2 }))
    book.admit(request('ns/vip', 20, { priority: 'critical', since: 4 }))
    const order = ['ns/vip', 'ns/elder', 'ns/young', 'ns/batch']
    expect([...book.places]).toEqual(order.map((key, at) => [key, at + 1]))
    book.release('ns/old')
    expect(freed).toEqual([['ns/vip']])
    expect(book.admit(request('ns/elder', 20, { since: 2 }))).toMatchObject({
      place: 2,
      message: 'Needs 20.0 GB: that is free now, but goes to services ahead of it in the queue (2nd waiting)',
    })
    expect(book.admit(request('ns/vip', 20, { priority: 'critical', since: 4 }))).toEqual({ admitted: true })
  })

  test('a small one passes a larger one that does not fit, and not one that does', () => {
    const { book, freed } = bookWith({ budget: 36 })
    book.admit(request('ns/running', 20))
    book.admit(request('ns/large', 30, { since: 1 }))
    expect(book.admit(request('ns/small', 10, { since: 2 }))).toEqual({ admitted: true })
    book.admit(request('ns/next', 8, { since: 3 }))
    book.release('ns/running')
    expect(freed).toEqual([['ns/next']])
  })

  test('one that asks first leaves their room to all ahead of it together', () => {
    const { book } = bookWith({ budget: 60 })
    book.admit(request('ns/a', 60))
    book.admit(request('ns/b', 25, { since: 1 }))
    book.admit(request('ns/c', 25, { since: 2 }))
    book.admit(request('ns/d', 15, { since: 3 }))
    book.release('ns/a')
    expect(book.admit(request('ns/d', 15, { since: 3 }))).toMatchObject({ admitted: false, place: 3 })
  })

  test('keeps the age of who asks again, and not that of one re-created under the same name', () => {
    const { book } = bookWith({ budget: 36 })
    book.admit(request('ns/a', 36))
    book.admit(request('ns/b', 20, { since: 1 }))
    book.admit(request('ns/c', 20, { since: 2 }))
    book.admit(request('ns/b', 20, { since: 9 }))
    expect([...book.places.keys()]).toEqual(['ns/b', 'ns/c'])
    book.admit(request('ns/b', 20, { since: 9, uid: 'another' }))
    expect([...book.places.keys()]).toEqual(['ns/c', 'ns/b'])
  })

  test('names who fits when memory is freed in any way: an end, a shrink, a larger budget, more available', () => {
    const ways: ((book: MemoryBook) => void)[] = [
      (book) => book.release('ns/a'),
      (book) => book.measured('ns/a', 30 * gb),
      (book) => book.observe({ budgetBytes: 60 * gb }),
    ]
    for (const free of ways) {
      const { book, freed } = bookWith({ budget: 40 })
      book.adopt(request('ns/a', 20))
      book.measured('ns/a', 35 * gb)
      book.admit(request('ns/b', 10))
      expect(freed).toEqual([])
      free(book)
      expect(freed).toEqual([['ns/b']])
    }
    const { book, freed } = bookWith({ budget: 40, available: 5 })
    book.admit(request('ns/b', 10))
    book.observe({ availableBytes: 10 * gb })
    expect(freed).toEqual([['ns/b']])
  })

  test('one that leaves makes way for those behind it', () => {
    const { book, freed } = bookWith({ budget: 36 })
    book.admit(request('ns/a', 36))
    book.admit(request('ns/b', 30, { since: 1 }))
    book.admit(request('ns/c', 30, { since: 2 }))
    book.release('ns/a')
    book.release('ns/b')
    expect(freed).toEqual([['ns/b'], ['ns/c']])
  })
})

describe('thousands of waiting starts', () => {
  function waiting(count: number, budget: number) {
    const room = bookWith({ budget, available: 10 * count, pressure: 'critical' })
    for (let at = 0; at < count; at += 1) room.book.admit(request(`ns/${at}`, 1, { since: at }))
    return { ...room, keys: [...room.book.places.keys()] }
  }

  test.each([
    ['of which few fit', 10],
    ['that all fit', 10_000],
  ])('%s, take time as they are many, and not as their square', async (_, budget) => {
    const places = (count: number) => {
      const { book, keys } = waiting(count, budget)
      return () => {
        book.observe({ pressure: 'critical' })
        expect(keys.map((key) => book.places.get(key)).at(-1)).toBe(count)
      }
    }
    const news = (count: number) => {
      const { book, freed } = waiting(count, budget)
      return () => {
        book.observe({ pressure: 'critical' })
        book.observe({ pressure: 'normal' })
        expect(freed.at(-1)).toHaveLength(Math.min(count, budget))
      }
    }
    expect(await growth(600, places)).toBeLessThan(growsNoFaster)
    expect(await growth(600, news)).toBeLessThan(growsNoFaster)
  })
})
