import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { defaultThresholds } from '../../../src/agent-core/memory/pressure.ts'
import { Memory, type MemoryOptions, type SizedRequest } from '../../../src/agent-core/memory/memory.ts'
import { StatedMemory } from '../../support/stated-memory.ts'
import { silentLog } from '../../support/silent-log.ts'

const gib = 1024 ** 3

let machine: StatedMemory
let memory: Memory | undefined

async function begin(more: Partial<MemoryOptions> = {}): Promise<Memory> {
  memory = new Memory({
    platform: machine.platform,
    settings: () => ({ fraction: 0, budgetBytes: undefined, enforcement: 'enforce', mayEvict: false }),
    thresholds: defaultThresholds,
    intervalMs: 0,
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
    room.ready('ns/a', 'current')
    return room
  }

  test('leaves what runs for it counted, since that goes on', async () => {
    const room = await running()
    expect(room.instead(unreadable, {})).toMatchObject({ reason: 'MemoryCheckFailed' })
    expect(room.beside(unreadable)).toMatchObject({ allowed: false })
    expect(room.book.held()).toMatchObject([{ key: 'ns/a', needBytes: 10 * gib }])
  })

  test('has nothing once its start is refused', async () => {
    const room = await running()
    expect(room.admit(unreadable, {})).toMatchObject({ admitted: false, reason: 'MemoryCheckFailed' })
    expect(room.book.held()).toEqual([])
  })
})
