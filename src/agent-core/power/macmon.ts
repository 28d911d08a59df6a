import { findExecutable, type Executable, type ExecutableSearch } from '../util/find-executable.ts'
import { endedWords, startWords } from './failure-words.ts'
import { MacmonParser } from './macmon-parser.ts'
import type { PowerSource, ProgramEnd } from './power-source.ts'

const wanted = {
  name: 'macmon',
  flag: '--macmon-bin',
  notInstalled: {
    darwin:
      'macmon is not installed here: install it with "brew install macmon", or say where it is with --macmon-bin.',
    linux: 'macmon is not on PATH: say where it is with --macmon-bin.',
  },
}

export const findMacmon = (search: ExecutableSearch): Promise<Executable> => findExecutable(wanted, search)

/** `macmon pipe`, which reads what powermetrics reads and needs no root. */
export const macmonSource = (find: () => Promise<Executable>): PowerSource => ({
  name: 'macmon',
  firstAfter: 1,
  command: async (intervalMs) => {
    const found = await find()
    // Before the word "pipe" every version takes the interval, behind it only those from 0.5.0 on.
    return found.kind === 'found' ? { file: found.path, args: ['-i', String(intervalMs), 'pipe'] } : found.message
  },
  reader: () => new MacmonParser(),
  whyEnded: (end) => Promise.resolve(whyEnded(end)),
  stuck: 'An earlier macmon has not ended: run `killall -9 macmon` in a terminal. No other is started before.',
})

function whyEnded(end: ProgramEnd): string {
  switch (end.kind) {
    case 'asked':
    case 'notStarted':
      return startWords('macmon', end)
    case 'stalled':
      return end.hasPrinted
        ? `macmon printed no power that can be read for ${end.silentMs / 1_000} s, so it was ended: see what \`macmon pipe\` prints in a terminal, and update it.`
        : `macmon printed nothing for ${end.silentMs / 1_000} s, so it was ended: see what \`macmon pipe\` prints in a terminal.`
    case 'exited':
      return endedWords('macmon', end)
  }
}
