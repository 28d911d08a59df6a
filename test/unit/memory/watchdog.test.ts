import { once } from 'node:events'
import { spawn } from 'node:child_process'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  type MemoryView,
  type ModelProcesses,
  type PressureChange,
  type PressureLevel,
  Watchdog,
  type WatchdogOptions,
} from '../../../src/agent-core/memory/watchdog.ts'
import { LinuxPlatform } from '../../../src/agent-core/platform/linux.ts'
import { PlatformError } from '../../../src/agent-core/platform/platform.ts'
import { eventually } from '../../support/eventually.ts'
import { silentLog } from '../../support/silent-log.ts'

const gb = 1_000_000_000

/** A machine whose memory a test sets. */
class Machine {
  available = 0.5
  kernelLevel: PressureLevel | undefined
  isReadable = true
  sizes = new Map<number, number>()
  readonly asked: string[] = []
  /** Looks wait for this before they answer. */
  gate: Promise<undefined> | undefined
  /** Measurements wait for this before they answer. */
  footprintGate: Promise<undefined> | undefined

  memory = async () => {
    this.asked.push('memory')
    const figures = { totalBytes: 64 * gb, availableBytes: this.available * 64 * gb, wiredBytes: 3 * gb }
    await this.gate
    if (!this.isReadable) throw new PlatformError('vm_stat does not say how much memory is available.')
    return figures
  }

  memoryPressureLevel = () => Promise.resolve(this.kernelLevel)

  footprints = async (pids: readonly number[]) => {
    this.asked.push(`footprints ${pids.join(' ')}`)
    await this.footprintGate
    return new Map([...this.sizes].filter(([pid]) => pids.includes(pid)))
  }

  membersOf = (groupIds: ReadonlySet<number>) => {
    const groups = new Map([
      [1, [11, 12]],
      [2, [21]],
      [9, [99]],
    ])
    return Promise.resolve(new Map([...groups].filter(([groupId]) => groupIds.has(groupId))))
  }

  biggestProcesses = (limit: number, except: ReadonlySet<number> = new Set()) => {
    this.asked.push(`applications, except ${[...except].filter((pid) => pid !== process.pid).join(' ')}`)
    return Promise.resolve([{ name: 'Google Chrome', bytes: 9 * gb, pid: 99 }].slice(0, limit))
  }
}

let machine: Machine
let models: ModelProcesses[]
let views: MemoryView[]
let changes: PressureChange[]
let watchdog: Watchdog

function watch(more: Partial<WatchdogOptions> = {}): Watchdog {
  watchdog = new Watchdog({
    platform: machine,
    models: () => models,
    log: silentLog,
    now: () => Date.now(),
    onSample: (view) => views.push(view),
    onChange: (change) => changes.push(change),
    ...more,
  })
  return watchdog
}

const told = () => changes.map(({ from, to }) => `${from} → ${to}`)

describe('a watchdog', () => {
  beforeEach(() => {
    vi.useFakeTimers()
    machine = new Machine()
    models = []
    views = []
    changes = []
  })
  afterEach(async () => {
    await watchdog[Symbol.asyncDispose]()
    vi.useRealTimers()
  })

  test('tells every change once, the return to normal included', async () => {
    watch().start()
    await vi.advanceTimersByTimeAsync(20_000)
    machine.available = 0.05
    await vi.advanceTimersByTimeAsync(60_000)
    machine.available = 0.5
    await vi.advanceTimersByTimeAsync(120_000)
    expect(told()).toEqual(['unknown → normal', 'normal → critical', 'critical → normal'])
    expect(changes.map(({ view }) => view.level)).toEqual(['normal', 'critical', 'normal'])
  })

  test('looks every ten seconds, and every five while memory is short', async () => {
    watch().start()
    await vi.advanceTimersByTimeAsync(60_000)
    const calm = views.length
    machine.kernelLevel = 'warning'
    await vi.advanceTimersByTimeAsync(60_000)
    expect([calm, views.length - calm]).toEqual([7, 11])
  })

  test('a failed look is neither critical nor normal, and is told once and when it has passed', async () => {
    const log: string[] = []
    const write = (message: string) => void log.push(message)
    watch({ log: { debug: write, info: write, warn: write, error: write } }).start()
    await vi.advanceTimersByTimeAsync(10_000)
    machine.isReadable = false
    await vi.advanceTimersByTimeAsync(200_000)
    expect(watchdog.latest).toMatchObject({
      level: 'unknown',
      problem: 'vm_stat does not say how much memory is available.',
    })
    expect(watchdog.latest).not.toHaveProperty('figures')
    machine.isReadable = true
    await vi.advanceTimersByTimeAsync(10_000)
    expect([told(), log]).toEqual([
      ['unknown → normal', 'normal → unknown', 'unknown → normal'],
      ['Memory cannot be read', 'Memory can be read again'],
    ])
  })

  test('a model has what all processes of its group have, and is forgotten with them', async () => {
    models = [
      { key: 'team/a', groupId: 1 },
      { key: 'team/b', groupId: 2 },
    ]
    machine.sizes = new Map([
      [11, 5 * gb],
      [12, gb],
      [21, 2 * gb],
    ])
    const { footprints } = await watch().sampleNow()
    models = models.slice(1)
    const later = await watchdog.sampleNow()
    expect([[...footprints], [...later.footprints]]).toEqual([
      [
        ['team/a', 6 * gb],
        ['team/b', 2 * gb],
      ],
      [['team/b', 2 * gb]],
    ])
  })

  test('while memory is not short, models are measured once a minute and applications never', async () => {
    models = [{ key: 'team/a', groupId: 1 }]
    watch().start()
    await vi.advanceTimersByTimeAsync(119_000)
    const calm = machine.asked.filter((question) => question !== 'memory')
    machine.asked.length = 0
    machine.available = 0.15
    await vi.advanceTimersByTimeAsync(4_000)
    expect([calm, machine.asked, watchdog.latest?.applications]).toEqual([
      ['footprints 11 12', 'footprints 11 12'],
      ['memory', 'footprints 11 12', 'applications, except 11 12'],
      [{ name: 'Google Chrome', bytes: 9 * gb, pid: 99 }],
    ])
  })

  test('while a model loads, it is measured at each look, so that what it has taken is no longer only promised', async () => {
    models = [{ key: 'team/a', groupId: 1, isLoading: true }]
    const measured = () => machine.asked.filter((question) => question.startsWith('footprints')).length
    watch().start()
    await vi.advanceTimersByTimeAsync(30_500)
    const loading = measured()
    models = [{ key: 'team/a', groupId: 1, isLoading: false }]
    await vi.advanceTimersByTimeAsync(30_000)
    expect([loading, measured()]).toEqual([4, 4])
  })

  test('while somebody looks, models are measured every two seconds, memory no more often, and only what changed is told', async () => {
    models = [{ key: 'a', groupId: 1 }]
    machine.sizes.set(11, 1 * gb)
    const footprints: (number | undefined)[] = []
    const onFootprints = (view: MemoryView) => footprints.push(view.footprints.get('a'))
    watch({ onFootprints }).start()
    await vi.advanceTimersByTimeAsync(15_000)
    machine.asked.length = 0
    watchdog.setWatched(true)
    await vi.advanceTimersByTimeAsync(3_000)
    machine.sizes.set(11, 2 * gb)
    await vi.advanceTimersByTimeAsync(1_500)
    expect([machine.asked, footprints, watchdog.latest?.footprints.get('a')]).toEqual([
      ['footprints 11 12', 'footprints 11 12', 'footprints 11 12'],
      [2 * gb],
      2 * gb,
    ])
    watchdog.setWatched(false)
    await vi.advanceTimersByTimeAsync(30_000)
    expect(machine.asked.slice(3)).toEqual(['memory', 'memory', 'memory'])
  })

  test('whoever looks away and again while models are measured begins no second measurement, and the end waits for the one', async () => {
    models = [{ key: 'a', groupId: 1 }]
    const gate = Promise.withResolvers<undefined>()
    watch({ intervalMs: 3_600_000 })
    machine.footprintGate = gate.promise
    watchdog.setWatched(true)
    await vi.advanceTimersByTimeAsync(1)
    watchdog.setWatched(false)
    watchdog.setWatched(true)
    await vi.advanceTimersByTimeAsync(5)
    const during = machine.asked.length
    gate.resolve(undefined)
    await vi.advanceTimersByTimeAsync(2_500)
    expect([during, machine.asked.length]).toEqual([1, 2])
    const next = Promise.withResolvers<undefined>()
    machine.footprintGate = next.promise
    await vi.advanceTimersByTimeAsync(2_000)
    watchdog.setWatched(false)
    let isEnded = false
    const ended = watchdog[Symbol.asyncDispose]().then(() => (isEnded = true))
    await vi.advanceTimersByTimeAsync(1)
    const before = isEnded
    next.resolve(undefined)
    await ended
    expect([before, machine.asked.length, vi.getTimerCount()]).toEqual([false, 3, 0])
  })

  test('whoever asks while a look is under way gets one that began afterwards, shared by all who ask', async () => {
    const gate = Promise.withResolvers<undefined>()
    machine.gate = gate.promise
    const first = watch().sampleNow()
    machine.available = 0.05
    const [second, third] = [watchdog.sampleNow(), watchdog.sampleNow()]
    gate.resolve(undefined)
    expect([(await first).level, (await second).level]).toEqual(['normal', 'critical'])
    expect(await third).toBe(await second)
    expect(views).toHaveLength(2)
  })

  test('nothing is told after its end', async () => {
    const gate = Promise.withResolvers<undefined>()
    machine.gate = gate.promise
    watch().start()
    await vi.advanceTimersByTimeAsync(1)
    const ended = watchdog[Symbol.asyncDispose]()
    gate.resolve(undefined)
    await ended
    await vi.advanceTimersByTimeAsync(100_000)
    expect([views, vi.getTimerCount()]).toEqual([[], 0])
  })
})

describe.runIf(process.platform === 'linux')('a watchdog on this machine', () => {
  test('sees what a model takes, all its processes together, and what it gives back', async () => {
    const takenBytes = 200 * 1024 ** 2
    const take = `globalThis.taken = Buffer.alloc(${takenBytes}, 1); setInterval(() => {}, 1e6)`
    const server = spawn('/bin/sh', ['-c', '"$0" -e "$1" & wait', process.execPath, take], {
      detached: true,
      stdio: 'ignore',
    })
    await once(server, 'spawn')
    const groupId = server.pid ?? 0
    let running: ModelProcesses[] = [{ key: 'team/a', groupId }]
    await using own = new Watchdog({
      platform: new LinuxPlatform(),
      models: () => running,
      log: silentLog,
    })
    try {
      const view = await eventually(async () => {
        const seen = await own.sampleNow()
        return (seen.footprints.get('team/a') ?? 0) > takenBytes && seen
      })
      expect(view.footprints.get('team/a')).toBeLessThan(2 * takenBytes)
      expect(view.figures?.availableBytes).toBeGreaterThan(0)
      expect(['normal', 'warning', 'critical']).toContain(view.level)
    } finally {
      process.kill(-groupId, 'SIGKILL')
      await once(server, 'exit')
    }
    running = []
    expect((await own.sampleNow()).footprints).toEqual(new Map())
  })
})
