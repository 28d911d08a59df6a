import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { PowerCommands } from '../../../src/agent-core/power/powermetrics.ts'
import { readIfThere } from '../../../src/agent-core/util/files.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { macmonLine, preamble, printedSample, recorded, type Milliwatts } from './samples.ts'

/** What the stand-ins do from their next line on. */
export type PowerMode =
  | 'measures'
  /** sudo refuses, in the words of the real one. */
  | 'asks'
  | 'denies'
  | 'hangs'
  /** powermetrics or macmon prints a few samples, then nothing more, or ends. */
  | 'freezes'
  | 'ends'

/** As sudo: the command is its child, and gets the signal that it gets. */
const sudo = `#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/calls"
echo $$ >> "$here/pids"
case $(cat "$here/mode") in
  asks | denies) [ "$LC_ALL" = C ] || { echo 'sudo: Ein Passwort ist notwendig' >&2; exit 1; } ;;
esac
case $(cat "$here/mode") in
  asks) echo 'sudo: a password is required' >&2; exit 1 ;;
  denies) echo "Sorry, user alice is not allowed to execute '/usr/bin/powermetrics' as root on mac." >&2; exit 1 ;;
  hangs) exec sleep 1000 ;;
esac
shift
"$@" &
trap 'kill -TERM $!' TERM
wait $!
`

const powermetrics = `#!/bin/sh
here=$(dirname "$0")
echo $$ >> "$here/pids"
cat "$here/preamble"
samples=0
while :; do
  mode=$(cat "$here/mode")
  if [ $samples -ge 3 ]; then
    [ "$mode" = freezes ] && exec sleep 1000
    [ "$mode" = ends ] && { echo 'powermetrics: unable to sample' >&2; exit 70; }
  fi
  cat "$here/sample" || exit 1
  samples=$((samples + 1))
  sleep 0.05
done
`

const macmon = `#!/bin/sh
here=$(dirname "$0")
echo "macmon $*" >> "$here/calls"
echo $$ >> "$here/pids"
lines=0
while :; do
  mode=$(cat "$here/mode")
  [ "$mode" = hangs ] && exec sleep 1000
  if [ $lines -ge 3 ]; then
    [ "$mode" = freezes ] && exec sleep 1000
    [ "$mode" = ends ] && { echo 'Error: "Failed to create subscription"' >&2; exit 1; }
  fi
  cat "$here/line" || exit 1
  lines=$((lines + 1))
  sleep 0.05
done
`

/** Executables in place of sudo, powermetrics and macmon, which keep count of what was asked of them. */
export interface PowerStandIns extends AsyncDisposable {
  readonly commands: PowerCommands
  readonly macmon: string
  mode(mode: PowerMode): Promise<void>
  print(sample: Milliwatts): Promise<void>
  /** The arguments of each call of sudo, without the path of powermetrics. */
  calls(): Promise<string[]>
  /** How many of the processes that were started live. */
  living(): Promise<number>
  /** Ends them, as root may. */
  end(): Promise<void>
}

export async function powerStandIns(): Promise<PowerStandIns> {
  const folder = await temporaryFolder()
  const file = (name: string): string => path.join(folder.dir, name)
  const commands = { sudo: file('sudo'), powermetrics: file('powermetrics') }
  const macmonFile = file('macmon')
  const mode = (value: PowerMode): Promise<void> => writeFile(file('mode'), value)
  const print = async (sample: Milliwatts): Promise<void> => {
    await writeFile(file('sample'), printedSample(sample))
    await writeFile(file('line'), macmonLine(sample))
  }
  await mkdir(folder.dir, { recursive: true })
  await writeFile(commands.sudo, sudo)
  await writeFile(commands.powermetrics, powermetrics)
  await writeFile(macmonFile, macmon)
  for (const executable of [...Object.values(commands), macmonFile]) await chmod(executable, 0o755)
  await writeFile(file('preamble'), preamble)
  await mode('measures')
  await print(recorded)
  const lines = async (name: string): Promise<string[]> =>
    ((await readIfThere(file(name))) ?? '').split('\n').filter((line) => line !== '')
  const living = async (): Promise<number[]> => {
    const pids = (await lines('pids')).map(Number)
    const alive = await Promise.all(pids.map(isAlive))
    return pids.filter((_, index) => alive[index])
  }
  return {
    commands,
    macmon: macmonFile,
    mode,
    print,
    calls: async () => (await lines('calls')).map((call) => call.replace(commands.powermetrics, 'powermetrics')),
    living: async () => (await living()).length,
    end: async () => {
      for (const pid of await living()) process.kill(pid, 'SIGKILL')
    },
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  }
}

/** A zombie is none. */
async function isAlive(pid: number): Promise<boolean> {
  try {
    process.kill(pid, 0)
    const state = process.platform === 'linux' ? await readFile(`/proc/${pid}/stat`, 'utf8') : ''
    return !/\) [ZX] /.test(state)
  } catch {
    return false
  }
}
