import fc from 'fast-check'
import { expect, test } from 'vitest'
import { MemoryBook } from '../../../src/agent-core/memory/book.ts'
import type { StartRequest } from '../../../src/agent-core/memory/decide.ts'

const keys = ['ns/a', 'ns/b', 'ns/c', 'ns/d', 'ns/e', 'ns/f'] as const
const priorities = ['batch', 'low', 'normal', 'high', 'critical'] as const
const pressures = ['normal', 'warning', 'critical'] as const

const key = fc.constantFrom(...keys)
const bytes = fc.nat(40)

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('arrive'),
      key,
      needBytes: fc.integer({ min: 1, max: 50 }),
      priority: fc.constantFrom(...priorities),
      ownBudgetBytes: fc.option(fc.integer({ min: 1, max: 70 }), { nil: undefined, freq: 4 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('retry'), at: fc.nat(9) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('delete'), key }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('fail'), key }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('ready'), key }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('load'), key, bytes }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('measure'), key }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('outgrow'), key, bytes }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('adopt'), key, bytes }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('others'), bytes: fc.nat(60) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('budget'), bytes: fc.nat(100) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('pressure'), pressure: fc.constantFrom(...pressures) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('look') }) },
)
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

interface Server {
  need: number
  /** What its processes hold; only we, not the book, know it at all times. */
  holds: number
  measured: number
  ready: boolean
  /** What the last look at the machine showed of it. */
  seen: number
}

/** Plays the machine and the agent around a book, keeps its own accounts, and judges every decision by them. */
class World {
  readonly totalBytes = 100
  readonly servers = new Map<string, Server>()
  readonly wanted = new Map<string, StartRequest>()
  readonly woken = new Set<string>()
  readonly book: MemoryBook
  budgetBytes = 60
  pressure: (typeof pressures)[number] = 'normal'
  others = 10
  available = 90
  clock = 0

  constructor() {
    const { budgetBytes, available: availableBytes, pressure } = this
    this.book = new MemoryBook({ budgetBytes, availableBytes, pressure }, (freed) => {
      for (const one of freed) this.woken.add(one)
    })
  }

  committed(): number {
    return this.#sum(({ need, measured }) => Math.max(need, measured))
  }

  promised(): number {
    return this.#sum(({ need, seen }) => Math.max(0, need - seen))
  }

  /** Whether it fits after others have taken so much. */
  fits({ needBytes = 0, ownBudgetBytes }: StartRequest, taken = 0): boolean {
    if (this.pressure === 'critical') return false
    if (ownBudgetBytes !== undefined && needBytes > ownBudgetBytes) return false
    if (this.committed() + taken + needBytes > Math.max(this.budgetBytes, ownBudgetBytes ?? 0)) return false
    return needBytes <= this.available - this.promised() - taken
  }

  /** Those in the queue ahead of this one that could all be served now, each with what those before it take. */
  servedAhead(of: StartRequest): { request: StartRequest; taken: number }[] {
    const queue = [...this.book.places.keys()].flatMap((waiting) => this.wanted.get(waiting) ?? [])
    const served: { request: StartRequest; taken: number }[] = []
    let taken = 0
    for (const request of queue.filter((other) => other.key !== of.key && isAhead(other, of))) {
      const { needBytes = 0 } = request
      if (!this.fits(request) || !served.every((one) => this.fits(one.request, one.taken + needBytes))) continue
      served.push({ request, taken })
      taken += needBytes
    }
    return served
  }

  ask(one: string): void {
    this.woken.delete(one)
    const request = this.wanted.get(one)
    if (request === undefined || this.servers.has(one)) return
    const didFit = this.fits(request)
    const ahead = this.servedAhead(request)
    const answer = this.book.admit(request)
    if (answer.admitted) {
      expect(didFit, 'admitted only what fits').toBe(true)
      this.servers.set(one, { need: request.needBytes ?? 0, holds: 0, measured: 0, ready: false, seen: 0 })
      for (const { request: other, taken } of ahead) {
        expect(this.fits(other, taken), 'took nobody’s place in the queue').toBe(true)
      }
    } else if (ahead.length === 0) {
      expect(didFit, 'refused only what does not fit').toBe(false)
    }
  }

  look(): void {
    this.available = Math.max(0, this.totalBytes - this.others - this.#sum(({ holds }) => holds))
    for (const server of this.servers.values()) {
      server.seen = server.ready ? server.need : Math.min(server.need, server.measured)
    }
    this.book.observe({ availableBytes: this.available })
  }

  /** Until no request is left. */
  settle(): void {
    for (let round = 0; this.woken.size > 0; round++) {
      expect(round, 'whoever is woken is served').toBeLessThan(100)
      for (const one of [...this.woken].reverse()) this.ask(one)
    }
  }

  play(one: Step): void {
    switch (one.do) {
      case 'arrive':
        if (this.wanted.has(one.key) || this.servers.has(one.key)) return
        this.wanted.set(one.key, {
          key: one.key,
          uid: `${one.key} ${this.clock}`,
          needBytes: one.needBytes,
          priority: one.priority,
          since: this.clock++,
          enforcement: 'enforce',
          ...(one.ownBudgetBytes !== undefined && { ownBudgetBytes: one.ownBudgetBytes }),
        })
        this.ask(one.key)
        return
      case 'retry': {
        const asking = [...this.wanted.keys()][one.at]
        if (asking !== undefined) this.ask(asking)
        return
      }
      case 'delete':
        this.wanted.delete(one.key)
        this.#gone(one.key)
        this.book.release(one.key)
        return
      case 'fail':
        if (!this.servers.has(one.key)) return
        this.#gone(one.key)
        this.book.release(one.key)
        this.ask(one.key)
        return
      case 'adopt':
        if (this.servers.has(one.key)) return
        this.servers.set(one.key, { need: one.bytes, holds: one.bytes, measured: 0, ready: true, seen: one.bytes })
        this.book.adopt({ key: one.key, needBytes: one.bytes, priority: 'normal' })
        return
      case 'ready': {
        const server = this.servers.get(one.key)
        if (server === undefined) return
        server.ready = true
        server.holds = Math.max(server.holds, server.need)
        this.book.ready(one.key)
        return
      }
      case 'load': {
        const server = this.servers.get(one.key)
        if (server !== undefined) server.holds = Math.max(server.holds, Math.min(server.need, one.bytes))
        return
      }
      case 'outgrow': {
        const server = this.servers.get(one.key)
        if (server !== undefined) server.holds += one.bytes
        return
      }
      case 'measure': {
        const server = this.servers.get(one.key)
        if (server === undefined) return
        server.measured = server.holds
        this.book.measured(one.key, server.measured)
        return
      }
      case 'others':
        this.others = one.bytes
        return
      case 'budget':
        this.budgetBytes = one.bytes
        this.book.observe({ budgetBytes: one.bytes })
        return
      case 'pressure':
        this.pressure = one.pressure
        this.book.observe({ pressure: one.pressure })
        return
      case 'look':
        this.look()
    }
  }

  inUse(): number {
    return this.others + this.#sum(({ holds }) => holds)
  }

  #gone(one: string): void {
    this.servers.delete(one)
  }

  #sum(of: (server: Server) => number): number {
    return [...this.servers.values()].reduce((sum, server) => sum + of(server), 0)
  }
}

function isAhead(a: StartRequest, b: StartRequest): boolean {
  const [first, second] = [priorities.indexOf(a.priority), priorities.indexOf(b.priority)]
  return first > second || (first === second && a.since < b.since)
}

function waitingOf(world: World): StartRequest[] {
  return [...world.wanted.values()].filter(({ key: one }) => !world.servers.has(one))
}

const steps = fc.array(step, { maxLength: 60 })

test('whatever arrives, leaves, fails, grows or shrinks: nothing is admitted beyond the budget or what is available', () => {
  fc.assert(
    fc.property(steps, (story) => {
      const world = new World()
      for (const one of story) {
        world.play(one)
        const { committedBytes, promisedBytes } = world.book.state()
        expect({ committedBytes, promisedBytes }).toEqual({
          committedBytes: world.committed(),
          promisedBytes: world.promised(),
        })
      }
    }),
    { numRuns: 1500 },
  )
})

test('once those named have asked again, nobody waits who fits', () => {
  fc.assert(
    fc.property(steps, (story) => {
      const world = new World()
      for (const one of story) {
        world.play(one)
        world.settle()
        for (const request of waitingOf(world)) {
          expect(world.fits(request), `${request.key} waits`).toBe(false)
        }
      }
    }),
    { numRuns: 1500 },
  )
})

test('places follow priority, then age, and count only those that can come to fit', () => {
  fc.assert(
    fc.property(steps, (story) => {
      const world = new World()
      for (const one of story) {
        world.play(one)
        const expected = waitingOf(world)
          .sort((a, b) => (isAhead(a, b) ? -1 : 1))
          .map(({ key: waiting }) => waiting)
        const places = [...world.book.places]
        expect(places.map(([waiting]) => waiting)).toEqual(expected)
        const counted = places.flatMap(([, place]) => place ?? [])
        expect(counted).toEqual(counted.map((_place, at) => at + 1))
        for (const [waiting, place] of places) {
          const { needBytes = 0, ownBudgetBytes } = world.wanted.get(waiting) ?? { needBytes: 0 }
          const alone =
            needBytes <= Math.max(world.budgetBytes, ownBudgetBytes ?? 0) && needBytes <= (ownBudgetBytes ?? Infinity)
          expect(place !== undefined).toBe(alone)
        }
      }
    }),
    { numRuns: 500 },
  )
})

test('while servers keep to their estimates and others take nothing more, the machine never runs out', () => {
  const calm = step.filter((one) => !['outgrow', 'others', 'adopt'].includes(one.do))
  fc.assert(
    fc.property(fc.array(calm, { maxLength: 80 }), (story) => {
      const world = new World()
      for (const one of story) {
        world.play(one)
        expect(world.inUse()).toBeLessThanOrEqual(world.totalBytes)
      }
    }),
    { numRuns: 1500 },
  )
})
