import { writeFile } from 'node:fs/promises'
import { availableParallelism, cpus, loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { gateway } from './gateway.ts'
import { idle } from './idle.ts'
import { life } from './life.ts'
import { lookedAt } from './looked-at.ts'
import { models } from './models.ts'
import type { Extent, Row } from './row.ts'
import { start } from './start.ts'
import { statisticsOf } from './statistics.ts'
import { supervision } from './supervision.ts'
import { isMet, table } from './table.ts'
import { together } from './together.ts'
import { World } from './world.ts'

const groups = [start, life, together, supervision, idle, lookedAt, gateway, models]

const groupNames = groups.map(({ name }) => name).join(', ')

const usual: Extent = {
  startRuns: 5,
  lifeRuns: 7,
  togetherRuns: 3,
  adoptionRuns: 5,
  hungRuns: 1,
  supervisedSeconds: 60,
  idleSeconds: 90,
  emptySeconds: 30,
  headerRuns: 9,
  downloadRuns: 5,
  downloadKills: 10,
}
const long: Extent = {
  startRuns: 20,
  lifeRuns: 40,
  togetherRuns: 10,
  adoptionRuns: 40,
  hungRuns: 10,
  supervisedSeconds: 300,
  idleSeconds: 900,
  emptySeconds: 300,
  headerRuns: 50,
  downloadRuns: 15,
  downloadKills: 25,
}

const { values: options } = parseArgs({
  options: {
    long: { type: 'boolean', default: false },
    json: { type: 'string' },
    only: { type: 'string', multiple: true },
    help: { type: 'boolean', short: 'h', default: false },
  },
})
const say = (text: string): void => void process.stdout.write(`${text}\n`)

if (options.help) {
  say(`node bench/main.ts [--long] [--json FILE] [--only GROUP]…

Groups: ${groupNames}`)
  process.exit(0)
}
const wanted = groups.filter(({ name }) => options.only?.includes(name) ?? true)
if (wanted.length === 0) throw new Error(`--only takes ${groupNames}.`)
const beganAt = performance.now()
const rows: Row[] = []
const failures: string[] = []
say(`The agent's bundled command on a real API server, with a sample server; ${machine()}.`)
await measureAll().catch((error: unknown) => fail(`Nothing more measured: ${messageOf(error)}`))
if (wanted.length > 1 && rows.length > 0) say(`\nAll together:\n\n${table(rows)}`)
say(['', ...failures, `${seconds()} s, ${machine()}`].join('\n'))
await keep()
process.exitCode = failures.length === 0 ? 0 : 1

/** Each group's rows are printed and kept as they come: an hour's work is not lost with what fails after it. */
async function measureAll(): Promise<void> {
  say('building the command and starting an API server …')
  await using world = await World.open()
  for (const [index, { name, measure }] of wanted.entries()) {
    say(`\n${name} (${index + 1} of ${wanted.length}, after ${seconds()} s) …`)
    try {
      const measured = await measure(world, options.long ? long : usual)
      rows.push(...measured)
      say(table(measured))
    } catch (error) {
      fail(`${name}: not measured: ${messageOf(error)}`)
    }
    await keep()
  }
}

function fail(message: string): void {
  failures.push(message)
  say(message)
}

async function keep(): Promise<void> {
  if (options.json !== undefined) await writeFile(options.json, `${JSON.stringify(report(), null, 2)}\n`)
}

function seconds(): string {
  return ((performance.now() - beganAt) / 1_000).toFixed(0)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Others' load is the first thing to look at when a figure is bad. */
function machine(): string {
  const load = loadavg()[0] ?? 0
  return `${availableParallelism()} cores of ${cpus()[0]?.model.trim() ?? 'an unknown kind'}, load ${load.toFixed(1)}`
}

function report(): object {
  return {
    at: new Date().toISOString(),
    machine: machine(),
    rows: rows.map((row) => ({ ...row, ...statisticsOf(row.values), met: isMet(row) })),
    failures,
  }
}
