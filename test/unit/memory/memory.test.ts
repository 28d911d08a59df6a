import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Memory, type MemoryOptions, type SizedRequest } from '../../../src/agent-core/memory/memory.ts'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { PlatformError } from '../../../src/agent-core/platform/platform.ts'
import { eventually } from '../../support/eventually.ts'
import { StatedMemory } from '../../support/stated-memory.ts'
import { silentLog } from '../../support/silent-log.ts'

const gib = 1024 ** 3

let machine: StatedMemory
let memory: Memory | undefined

async function begin(more: Partial<MemoryOptions> = {}): Promise<Memory> {
  memory = new Memory({
    platform: machine.platform,
    settings: () => ({ fraction: 0, budgetBytes: undefined, enforcement: 'enforce' }),
    servers: () => [],
    log: silentLog,
    ...more,
  })
  await memory.start()
  return memory
}

const request = (key: string, more: Partial<SizedRequest> = {}): SizedRequest => ({
  key,
  uid: `uid of ${key}`,
  needBytes: 10 * gib,
  priority: 'normal',
  since: 0,
  ...more,
})

beforeEach(() => {
  machine = new StatedMemory()
})
afterEach(async () => {
  await memory?.[Symbol.asyncDispose]()
})

describe('a Model whose own budget cannot be read', () => {
  const unreadable = request('ns/a', { modelBudget: 'a lot' })

  async function running(): Promise<Memory> {
    const room = await begin()
    room.admit(request('ns/a'), {})
    room.book.ready('ns/a')
    return room
  }

  test('leaves what runs for it counted, since that goes on', async () => {
    const room = await running()
    expect(room.instead(unreadable, {})).toMatchObject({ reason: 'MemoryCheckFailed' })
    expect(room.book.held()).toMatchObject([{ key: 'ns/a', needBytes: 10 * gib }])
  })

  test('has nothing once its start is refused', async () => {
    const room = await running()
    expect(room.admit(unreadable, {})).toMatchObject({ admitted: false, reason: 'MemoryCheckFailed' })
    expect(room.book.held()).toEqual([])
  })
})

describe('what the GPU may hold', () => {
  const budgetIs = (room: Memory, bytes: number) =>
    eventually(() => room.budget?.bytes === bytes, { what: `a budget of ${bytes / gib} GiB` })

  test('is asked again about once a minute, and when settings change', async () => {
    let now = 0
    machine.gpuLimitBytes = 100 * gib
    const room = await begin({ now: () => now })
    expect(room.budget?.bytes).toBe(100 * gib)
    machine.gpuLimitBytes = 200 * gib
    now += 59_000
    await room.look()
    expect(room.budget?.bytes).toBe(100 * gib)
    now += 1_000
    await room.look()
    await budgetIs(room, 200 * gib)
    machine.gpuLimitBytes = 150 * gib
    await room.settingsChanged()
    expect(room.budget?.bytes).toBe(150 * gib)
  })

  test('is asked of llama-server until it knows, and again when a person changed the limit', async () => {
    const answers = [undefined, 90 * gib, 80 * gib]
    let asked = 0
    const room = await begin({ recommendedGpuBytes: () => Promise.resolve(answers[asked++]) })
    expect(room.budget?.gpuLimitBytes).toBeUndefined()
    await room.settingsChanged()
    expect(room.budget?.bytes).toBe(90 * gib)
    machine.gpuLimitBytes = 200 * gib
    await room.settingsChanged()
    expect(room.budget?.bytes).toBe(200 * gib)
    machine.gpuLimitBytes = undefined
    await room.settingsChanged()
    expect(room.budget?.bytes).toBe(80 * gib)
    await room.settingsChanged()
    expect(asked).toBe(3)
  })

  test('stays what it was while the system does not answer', async () => {
    machine.gpuLimitBytes = 100 * gib
    const room = await begin()
    machine.gpuLimitError = new PlatformError('sysctl does not answer.')
    await room.settingsChanged()
    expect(room.budget?.bytes).toBe(100 * gib)
  })
})

test.each([
  ['darwin', 20 * gib],
  ['linux', gib],
] as const)('the share of a mapped model that serves, by what %s measures', async (name, bytes) => {
  const { pid } = process
  const platform = Object.assign(hostPlatform(), {
    name,
    membersOf: () => Promise.resolve(new Map([[pid, [pid]]])),
    footprints: () => Promise.resolve(new Map([[pid, gib]])),
  })
  machine = new StatedMemory(platform)
  const room = await begin({
    servers: () => [{ key: 'ns/a', groupId: pid, isLoading: false }],
  })
  room.admit(request('ns/a', { needBytes: 20 * gib, mappedBytes: 20 * gib }), {})
  room.book.ready('ns/a')
  await room.look()
  expect([room.held().get('ns/a'), room.view?.footprints.get('ns/a')]).toEqual([bytes, gib])
})

test('what could be quit is looked for where a start does not fit, and nowhere else, once for all that ask meanwhile', async () => {
  machine.totalBytes = 32 * gib
  machine.availableBytes = 30 * gib
  let lists = 0
  const platform = new Proxy(machine.platform, {
    get: (target, name) => {
      if (name !== 'biggestProcesses') return Reflect.get(target, name) as unknown
      return () => {
        lists += 1
        return Promise.resolve([{ name: 'Browser', bytes: 8 * gib, pid: 1 }])
      }
    },
  })
  const room = await begin({ platform })
  await room.prepare(request('ns/a'))
  expect([room.admit(request('ns/a'), {}).admitted, lists]).toEqual([true, 0])

  room.book.release('ns/a')
  machine.availableBytes = 8 * gib
  await room.look()
  await Promise.all(['ns/b', 'ns/c', 'ns/d'].map((key) => room.prepare(request(key))))
  expect(room.admit(request('ns/b'), {})).toMatchObject({
    admitted: false,
    ways: [{ sentence: expect.stringContaining('Browser') as unknown }],
  })
  expect(lists).toBe(1)
})
