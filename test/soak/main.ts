// make soak FAULTS=1000 SEED=7, or make soak REPLAY=file: see docs/soak.md.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { fault, type Fault } from './faults.ts'
import { halve } from './halving.ts'
import { rounds, schedule } from './schedule.ts'
import { soak } from './soak.ts'

const roundSize = 40
const whole = z.coerce.number().int().min(1)
const variables = z.object({
  FAULTS: whole.default(200),
  SEED: whole.default(() => Date.now() % 2 ** 31),
  REPLAY: z.string().optional(),
})
const recorded = z.object({ seed: z.number(), broken: z.array(z.string()), faults: z.array(fault) })

const say = (line: string): void => void process.stdout.write(`${line}\n`)
const folder = join(
  import.meta.dirname,
  '../../out/soak',
  `${new Date().toISOString().replaceAll(':', '')}-${process.pid}`,
)
const given = variables.safeParse(Object.fromEntries(Object.entries(process.env).filter(([, value]) => value !== '')))
if (given.success) process.exitCode = (await main(given.data)) ? 0 : 1
else {
  process.stderr.write(
    `make soak takes FAULTS and SEED as whole numbers, and REPLAY: ${z.prettifyError(given.error)}\n`,
  )
  process.exitCode = 2
}

/** @returns whether nothing was broken. */
function main({ FAULTS, SEED, REPLAY }: z.infer<typeof variables>): Promise<boolean> {
  return REPLAY === undefined ? run(FAULTS, SEED) : replay(REPLAY)
}

/** @returns whether nothing was broken. */
async function run(count: number, seed: number): Promise<boolean> {
  const planned = rounds(schedule({ seed, count }), roundSize)
  say(`${count} faults of seed ${seed}; logs in ${folder}`)
  const { broken, rounds: done, skipped, looks, local } = await soak({ seed, rounds: planned, folder, say })
  if (skipped !== undefined) say(`Skipped: ${skipped}`)
  const { all, late, away, blocked } = looks
  say(
    `${all} looks, of which ${late} came late, ${away} were while the agent was away and ${blocked} while it could not write.`,
  )
  say(
    `${local.answered} requests through the client proxy were answered, ${local.streamed} of them as streams, ${local.excused} not, each for a reason.`,
  )
  if (broken.length === 0) {
    say(`Nothing was broken by ${count} faults of seed ${seed}.`)
    return true
  }
  const file = join(folder, 'faults.json')
  await record(file, { seed, broken, faults: planned[done - 1] ?? [] })
  say(`Broken in round ${done} of seed ${seed}:\n${broken.map((sentence) => `  ${sentence}`).join('\n')}`)
  say(`Its faults: ${file}; make soak REPLAY=${file} repeats them, and looks for fewer that do it.`)
  return false
}

/** @returns whether the recorded faults break nothing any more. */
async function replay(file: string): Promise<boolean> {
  const { seed, faults } = recorded.parse(JSON.parse(await readFile(file, 'utf8')))
  let attempt = 0
  const breaks = async (some: readonly Fault[]): Promise<boolean> => {
    attempt += 1
    const { broken } = await soak({ seed, rounds: [some], folder: join(folder, String(attempt)), say })
    say(`${some.length} faults: ${broken.length === 0 ? 'nothing broken' : broken.join(' ')}`)
    if (broken.length > 0) await record(join(folder, 'fewest.json'), { seed, broken, faults: some })
    return broken.length > 0
  }
  if (!(await breaks(faults))) return true
  const fewest = await halve(faults, breaks)
  say(`${fewest.length} of ${faults.length} faults are enough: ${join(folder, 'fewest.json')}`)
  return false
}

function record(
  file: string,
  story: { seed: number; broken: readonly string[]; faults: readonly Fault[] },
): Promise<void> {
  return writeFile(file, `${JSON.stringify(story, null, 1)}\n`)
}
