import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { PowerFigures } from '../../../src/contract/power.ts'
import { findMacmon } from '../../../src/agent-core/power/macmon.ts'
import { Power, type PowerOptions, type PowerSettings } from '../../../src/agent-core/power/power.ts'
import type { Kill } from '../../../src/agent-core/power/power-source.ts'
import { eventually } from '../../support/eventually.ts'
import { powerStandIns, type PowerMode, type PowerStandIns } from '../../support/power/stand-ins.ts'
import { Recorder } from '../../support/running-agent.ts'

/** Longer than any test takes: only those about looks and hangs shorten them. */
const never = 600_000

/** Of one that is to print something before it hangs, and is never started anew: a loaded machine starts it slowly. */
const stallMs = 2_500

class Trial implements AsyncDisposable {
  readonly power: Power
  readonly log = new Recorder()
  readonly told: (PowerFigures | undefined)[] = []
  readonly standIns: PowerStandIns
  settings: PowerSettings
  hasReaders = false
  homebrewFolders: readonly string[] = []

  constructor(standIns: PowerStandIns, settings: Partial<PowerSettings>, options: Partial<PowerOptions>) {
    this.standIns = standIns
    this.settings = {
      ...{ isEnabled: true, source: 'powermetrics' },
      ...settings,
    }
    this.power = new Power({
      platform: 'darwin',
      settings: () => this.settings,
      log: this.log,
      hasReaders: () => this.hasReaders,
      onChange: (figures) => void this.told.push(figures),
      commands: standIns.commands,
      findMacmon: () => findMacmon({ system: 'darwin', homebrewFolders: this.homebrewFolders }),
      lookMs: never,
      stallMs: never,
      backOff: { firstMs: 100, maxMs: 1_000 },
      ...options,
    })
  }

  measures(): Promise<PowerFigures> {
    return eventually(() => this.power.figures, { what: 'figures' })
  }

  state(wanted: string): Promise<string> {
    return eventually(
      () => {
        const { state, message } = this.power.view ?? {}
        return state === wanted && message
      },
      { what: `power to be ${wanted}` },
    )
  }

  /** It is started anew, and a busy machine may start it so slowly that it has printed nothing by then. */
  says(sentence: string): Promise<true> {
    return eventually(() => this.power.view?.message.startsWith(sentence) === true, { what: sentence })
  }

  nothingRuns(): Promise<true> {
    return eventually(async () => (await this.standIns.living()) === 0, { what: 'powermetrics to be gone' })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.power[Symbol.asyncDispose]()
    await this.standIns[Symbol.asyncDispose]()
  }
}

interface Given {
  readonly source?: 'macmon'
  readonly mode?: PowerMode
  readonly settings?: Partial<PowerSettings>
  readonly options?: Partial<PowerOptions>
}

async function trial({ source, mode, settings = {}, options = {} }: Given = {}): Promise<Trial> {
  const standIns = await powerStandIns()
  if (mode !== undefined) await standIns.mode(mode)
  const it = new Trial(standIns, { ...(source && { source }), ...settings }, options)
  if (source === 'macmon') it.homebrewFolders = [path.dirname(standIns.macmon)]
  return it
}

describe('power is measured while it is asked for: seldom, and as often as is set while somebody looks', () => {
  test('it is off until somebody asks for it', async () => {
    await using it = await trial({ settings: { isEnabled: false } })
    it.power.look()
    expect([it.power.view, it.power.figures, await it.standIns.calls()]).toEqual([undefined, undefined, []])
  })

  test('with the first look it is measured as often as is set, by the exact command line that the rule of sudo names', async () => {
    await using it = await trial({ options: { stallMs: undefined } })
    it.power.look()
    it.power.look()
    expect(it.power.view).toEqual({
      state: 'starting',
      message: 'Power is measured every 1 s. The first figures take 2 s.',
      source: 'powermetrics',
    })
    expect(await it.measures()).toEqual({ combinedWatts: 0.171, cpuWatts: 0.164, gpuWatts: 0.007, aneWatts: 0 })
    expect(it.power.view).toMatchObject({ state: 'measuring', message: 'Power is measured every 1 s.' })
    expect(await it.standIns.calls()).toEqual(['-n powermetrics --samplers cpu_power,gpu_power -i 1000'])
  })

  test('it is measured every 10 s while nobody looks, until it is not asked for any more', async () => {
    await using it = await trial({ options: { lookMs: 200 } })
    it.power.settingsChanged()
    await it.measures()
    expect([it.power.intervalMs, it.power.view?.message]).toEqual([10_000, 'Power is measured every 10 s.'])
    it.hasReaders = true
    it.power.look()
    await it.measures()
    expect(it.power.intervalMs).toBe(1_000)
    it.hasReaders = false
    await eventually(() => it.power.intervalMs === 10_000, { what: 'nobody to look any more' })
    await it.measures()
    it.settings = { ...it.settings, isEnabled: false }
    it.power.settingsChanged()
    await it.nothingRuns()
    const every = (ms: number) => `-n powermetrics --samplers cpu_power,gpu_power -i ${ms}`
    expect(await it.standIns.calls()).toEqual([every(10_000), every(1_000), every(10_000)])
  })
})

describe('what goes wrong is said in one sentence, and figures are gone rather than old', () => {
  test('powermetrics that ends is started anew, and what is left of it is signalled once, at its end', async () => {
    const signals: unknown[] = []
    const kill: Kill = (pid, signal) => {
      signals.push(signal)
      return process.kill(pid, signal)
    }
    await using it = await trial({ mode: 'ends', options: { kill } })
    it.power.look()
    expect(await it.state('failed')).toBe(
      'powermetrics ended (exit code 70): powermetrics: unable to sample. The agent tries again.',
    )
    expect(it.told.at(-1)).toBeUndefined()
    await it.standIns.mode('measures')
    await it.state('measuring')
    const { length } = await it.standIns.calls()
    expect(signals).toEqual(Array(length - 1).fill('SIGTERM'))
    expect(it.log.warnings).toHaveLength(1)
  })

  test('powermetrics that prints nothing more is ended and started anew', async () => {
    await using it = await trial({ mode: 'freezes', options: { stallMs: 2_000 } })
    it.power.look()
    await it.measures()
    await it.says(
      'powermetrics printed no power for 2 s, so the agent stopped it: run `metal-agent power status`. The agent tries again.',
    )
    expect(it.power.figures).toBeUndefined()
    await it.nothingRuns()
    await it.standIns.mode('measures')
    await it.state('measuring')
  })

  test.each<[PowerMode, string]>([
    [
      'asks',
      'sudo asks for a password before it runs powermetrics: run `metal-agent power install` once in a terminal. The agent tries again.',
    ],
    [
      'denies',
      'sudo does not let this user run powermetrics: have an administrator run `metal-agent power install` once in a terminal, with --user and the name of this user. The agent tries again.',
    ],
    [
      'hangs',
      'sudo or powermetrics printed nothing for 0.5 s, so the agent stopped it: run `metal-agent power status`. The agent tries again.',
    ],
  ])('sudo that %s', async (mode, sentence) => {
    await using it = await trial({ mode, options: { stallMs: 500 } })
    it.power.look()
    expect(await it.state('failed')).toBe(sentence)
    await it.nothingRuns()
  })

  test('no sudo at all', async () => {
    const commands = { sudo: '/no/sudo', powermetrics: '/no/powermetrics' }
    await using it = await trial({ options: { commands } })
    it.power.look()
    expect(await it.state('failed')).toBe('sudo cannot be started: spawn /no/sudo ENOENT. The agent tries again.')
  })

  test('a rule of sudo that is taken away while power is measured is said, and its return counts', async () => {
    await using it = await trial()
    it.power.look()
    await it.measures()
    await it.standIns.mode('asks')
    await it.standIns.end()
    await eventually(() => it.power.view?.message.includes('run `metal-agent power install`'))
    expect(it.power.figures).toBeUndefined()
    await it.standIns.mode('measures')
    await it.state('measuring')
  })

  test('it waits twice as long after each failure in a row', async () => {
    await using it = await trial({ mode: 'asks', options: { backOff: { firstMs: 100, maxMs: 60_000 } } })
    const from = performance.now()
    it.power.look()
    await eventually(async () => (await it.standIns.calls()).length >= 4)
    expect(performance.now() - from).toBeGreaterThan(100 + 200 + 400)
  })
})

describe('where the system refuses to signal what runs as root', () => {
  test('powermetrics ends at its next line, and only then the next one begins', async () => {
    await using it = await trial({ options: { kill: refused } })
    it.power.look()
    await it.measures()
    switchedOffAndOn(it)
    await it.measures()
    expect([(await it.standIns.calls()).length, await it.standIns.living()]).toEqual([2, 2])
  })

  test('one that hangs is said at once and has none started beside it, also when it is switched off and on', async () => {
    await using it = await trial({ mode: 'freezes', options: { kill: refused, stallMs } })
    it.power.look()
    await it.measures()
    expect(await it.state('failed')).toContain(`powermetrics printed no power for ${stallMs / 1_000} s`)
    const sentence =
      'An earlier powermetrics is still running, and only root may stop it: run `sudo killall -9 powermetrics` in a terminal. The agent starts no other until then.'
    const isStuck = () => eventually(() => it.power.view?.message === sentence, { what: 'it to be stuck' })
    await isStuck()
    switchedOffAndOn(it)
    await isStuck()
    expect([await it.standIns.calls(), await it.standIns.living()]).toEqual([[expect.anything()], 2])
    await it.standIns.mode('measures')
    await it.standIns.end()
    await it.measures()
    expect(await it.standIns.calls()).toHaveLength(2)
  })

  test('one that hangs does not keep the agent from ending', async () => {
    await using it = await trial({ mode: 'hangs', options: { kill: refused } })
    it.power.look()
    await eventually(async () => (await it.standIns.living()) === 1)
    await it.power[Symbol.asyncDispose]()
    expect(await it.standIns.living()).toBe(1)
    await it.standIns.end()
  })
})

describe('macmon measures without root where that is set', () => {
  test('it begins with the first look, and sudo is not asked', async () => {
    await using it = await trial({ source: 'macmon' })
    it.power.look()
    expect(it.power.view).toEqual({
      state: 'starting',
      message: 'Power is measured every 1 s. The first figures take 1 s.',
      source: 'macmon',
    })
    expect(await it.measures()).toEqual({ combinedWatts: 0.171, cpuWatts: 0.164, gpuWatts: 0.007, aneWatts: 0 })
    expect(await it.standIns.calls()).toEqual(['macmon -i 1000 pipe'])
    await it.power[Symbol.asyncDispose]()
    await it.nothingRuns()
  })

  test('another source takes effect at once for who looks, also while a powermetrics hangs that only root may end', async () => {
    await using it = await trial({ mode: 'freezes', options: { kill: refused, stallMs } })
    it.power.look()
    await it.measures()
    expect(await it.state('failed')).toContain(`powermetrics printed no power for ${stallMs / 1_000} s`)
    await it.standIns.mode('measures')
    it.homebrewFolders = [path.dirname(it.standIns.macmon)]
    it.settings = { ...it.settings, source: 'macmon' }
    it.power.settingsChanged()
    await it.measures()
    expect(it.power.view?.source).toBe('macmon')
    it.settings = { ...it.settings, source: 'powermetrics' }
    it.power.settingsChanged()
    await eventually(() => it.power.view?.message.includes('sudo killall -9 powermetrics'))
    expect(await it.standIns.calls()).toEqual([expect.stringMatching(/^-n powermetrics/), 'macmon -i 1000 pipe'])
    await it.standIns.end()
  })

  test.each<[PowerMode, string]>([
    ['ends', 'macmon ended (exit code 1): Error: "Failed to create subscription". The agent tries again.'],
    [
      'hangs',
      'macmon printed nothing for 0.5 s, so the agent stopped it: see what `macmon pipe` prints in a terminal. The agent tries again.',
    ],
    [
      'freezes',
      'macmon printed no power that can be read for 0.5 s, so the agent stopped it: see what `macmon pipe` prints in a terminal, and update it. The agent tries again.',
    ],
  ])('one that %s is ended and started anew', async (mode, sentence) => {
    await using it = await trial({ source: 'macmon', mode, options: { stallMs: 500 } })
    it.power.look()
    await it.says(sentence)
    expect(it.power.figures).toBeUndefined()
    await it.standIns.mode('measures')
    await it.state('measuring')
  })

  test('where sudo lacks the rule and macmon is installed, the sentence names that way', async () => {
    await using it = await trial({ mode: 'asks' })
    it.homebrewFolders = [path.dirname(it.standIns.macmon)]
    it.power.look()
    expect(await it.state('failed')).toBe(
      'sudo asks for a password before it runs powermetrics: run `metal-agent power install` once in a terminal. Or have macmon measure it, which needs no rule: `metal-agent settings set power-source macmon`. The agent tries again.',
    )
  })
})

const refused = (): boolean => {
  throw Object.assign(new Error('kill EPERM'), { code: 'EPERM' })
}

/** Who looks goes on looking. */
function switchedOffAndOn(it: Trial): void {
  for (const isEnabled of [false, true]) {
    it.settings = { ...it.settings, isEnabled }
    it.power.settingsChanged()
  }
  it.power.look()
}

describe('settings', () => {
  test('on Linux it is said that there is no power to measure', async () => {
    await using it = await trial({ options: { platform: 'linux', commands: undefined } })
    it.power.look()
    expect(it.power.view).toMatchObject({
      state: 'unavailable',
      message: 'Power is not measured on Linux: it is read from powermetrics, which only macOS has.',
    })
  })
})
