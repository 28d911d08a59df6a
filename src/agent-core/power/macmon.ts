import { z } from 'zod'
import { parseJson } from '../util/files.ts'
import { findExecutable, type Executable, type ExecutableSearch } from '../util/find-executable.ts'
import { endedWords, lineReader, type PowerSample, type PowerSource, type SampleReader } from './power-source.ts'

const wanted = {
  name: 'macmon',
  flag: '--macmon-bin',
  notInstalled: {
    darwin: 'macmon is not installed here: install it with "brew install macmon", or give its path with --macmon-bin.',
    linux: 'macmon only runs on macOS.',
  },
}

export const findMacmon = (search: ExecutableSearch): Promise<Executable> => findExecutable(wanted, search)

const inTerminal = 'see what `macmon pipe` prints in a terminal'

/** `macmon pipe`, which reads what powermetrics reads and needs no root. */
export const macmonSource = (find: () => Promise<Executable>): PowerSource => ({
  name: 'macmon',
  firstAfter: 1,
  command: async (intervalMs) => {
    const found = await find()
    // Every version takes the interval before the word "pipe", only those from 0.5.0 on behind it.
    return found.kind === 'found' ? { file: found.path, args: ['-i', String(intervalMs), 'pipe'] } : found.message
  },
  reader: macmonReader,
  whyEnded: (end) => {
    if (end.kind !== 'stalled') return Promise.resolve(endedWords('macmon', end))
    const [what, more] = end.hasPrinted ? ['no power that can be read', ', and update it'] : ['nothing', '']
    return Promise.resolve(
      `macmon printed ${what} for ${end.silentMs / 1_000} s, so the agent stopped it: ${inTerminal}${more}.`,
    )
  },
  stuck:
    'An earlier macmon is still running: run `killall -9 macmon` in a terminal. The agent starts no other until then.',
})

const watts = z.number().nonnegative()
/** A figure that is no number, as macmon prints NaN, is not known; one bad figure takes no other with it. */
const part = watts.optional().catch(undefined)

/** What `macmon pipe` prints of power, in watts, in every version since it has `pipe` (0.4.0). */
const printed = z.object({
  all_power: watts,
  cpu_power: part,
  gpu_power: part,
  ane_power: part,
  /** 0 where its sensor cannot be read. */
  sys_power: part,
})

/** A sample of `macmon pipe` is one line of JSON; other lines are left out. */
export const macmonReader = (): SampleReader =>
  lineReader((line): PowerSample[] => {
    const { data } = printed.safeParse(parseJson(line))
    if (!data) return []
    const { all_power, cpu_power, gpu_power, ane_power, sys_power } = data
    return [
      {
        combined: Math.round(all_power * 1_000),
        cpu: milliwatts(cpu_power),
        gpu: milliwatts(gpu_power),
        ane: milliwatts(ane_power),
        system: sys_power === 0 ? undefined : milliwatts(sys_power),
      },
    ]
  })

const milliwatts = (value: number | undefined): number | undefined =>
  value === undefined ? undefined : Math.round(value * 1_000)
