/**
 * `node warden.ts PID`: ends all that a test run has started when the run is killed. Agents and servers of tests are in groups of their own and
 * outlive those that start them on purpose, so nothing else would. The run's end is the end of standard input, which the operating system sees
 * to; one that ends in good order says so before, and cleans up itself.
 */
import { allProcesses, type SeenProcess } from './processes.ts'

const lookEveryMs = 1_000

const run = Number(process.argv[2])
/** What came from the run, by number and start, also when what started it is gone. */
const known = new Map<number, string>()
let isOver = false

const isKnown = ({ pid, startedAt }: SeenProcess) => known.get(pid) === startedAt

function look(): readonly SeenProcess[] {
  const all = allProcesses()
  const found = new Set(all.filter((one) => one.pid === run || isKnown(one)).map(({ pid }) => pid))
  found.add(run)
  for (let before = -1; before < found.size;) {
    before = found.size
    for (const { pid, parent } of all) if (found.has(parent) && pid !== process.pid) found.add(pid)
  }
  const ours = all.filter(({ pid }) => found.has(pid) && pid !== run)
  known.clear()
  for (const { pid, startedAt } of ours) known.set(pid, startedAt)
  return ours
}

function endAll(): void {
  for (const { pid } of look()) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has ended meanwhile.
    }
  }
}

look()
setInterval(look, lookEveryMs)
process.stdin
  .on('data', () => (isOver = true))
  .on('end', () => {
    if (!isOver) endAll()
    process.exit()
  })
// A Ctrl-C in the terminal of the run is for the run.
for (const signal of ['SIGINT', 'SIGHUP', 'SIGTERM'] as const) process.on(signal, () => undefined)
