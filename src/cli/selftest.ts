import { release } from 'node:os'
import { buildInfo } from '../agent-core/agent/build-info.ts'
import { runCommand, type CommandRunner } from '../agent-core/platform/command.ts'
import { DarwinPlatform } from '../agent-core/platform/darwin.ts'
import { hostPlatform } from '../agent-core/platform/host.ts'
import type { Platform } from '../agent-core/platform/platform.ts'
import { messageOf } from '../agent-core/util/message-of.ts'
import { withoutHome } from '../agent-core/util/redact.ts'
import type { DoctorFinding, Verdict as DoctorVerdict } from '../contract/doctor.ts'
import { eraseLine, exitCodes, type CliIo } from './io.ts'
import {
  machineChecks,
  memoryChecks,
  networkChecks,
  notAsked,
  processChecks,
  type Asker,
  type Check,
  type Finding,
  type Verdict,
} from './selftest-checks.ts'

export const checks: readonly Check[] = [...machineChecks, ...processChecks, ...memoryChecks, ...networkChecks]

/** The footprint of a large model may take this long; nothing else comes near. */
const commandLimitMs = 20_000

/** The most that one question may take, which may run several commands. */
const checkLimitMs = 30_000

export interface SelftestOptions {
  readonly onHead?: (head: ReportHead) => void
  readonly onLine?: (line: ReportLine) => void
  /** Given by tests: recorded answers, and shorter limits. */
  readonly run?: CommandRunner
  readonly platform?: Platform
  readonly checkLimitMs?: number
  /** From then on nothing more is asked, and what was started is ended. */
  readonly stop?: AbortSignal
}

/** Asks this machine all that the agent relies on and cannot know before, and prints a report. Answers the exit code, which counts only where it was not stopped. */
export async function runSelftest(
  io: CliIo,
  { json, ...options }: SelftestOptions & { readonly json: boolean },
): Promise<number> {
  const report = await askSelftest(io, {
    ...options,
    ...(!json && {
      onHead: (head) => void io.stdout.write(headText(head)),
      onLine: (line) => void io.stdout.write(lineText(line)),
    }),
  })
  if (!report) return exitCodes.failed
  io.stdout.write(json ? `${JSON.stringify(report, undefined, 2)}\n` : footText(report))
  return report.lines.some(({ verdict }) => verdict === 'different') ? exitCodes.failed : exitCodes.done
}

/** The same without a word on standard output; undefined where it was stopped. */
export async function askSelftest(io: CliIo, options: SelftestOptions): Promise<Report | undefined> {
  const run = options.run ?? runCommand(commandLimitMs)
  const isMac = io.platform === 'darwin'
  const platform = options.platform ?? (isMac ? new DarwinPlatform({ run }) : hostPlatform(io.platform))
  const asker = { run, platform, env: io.env, temporaryDir: io.temporaryDir }
  const head = { version: buildInfo.version, system: await systemName(isMac, run) }
  const asked = checks.filter(({ isForMacs }) => isMac || !isForMacs)
  const onlyOnMacs = checks.filter((check) => !asked.includes(check)).map(({ id }) => id)

  options.onHead?.(head)
  const lines: ReportLine[] = []
  for (const [index, check] of asked.entries()) {
    const progress = `${index + 1} of ${asked.length}: ${check.asks} …`
    if (io.stderr.isTTY === true) io.stderr.write(`${eraseLine}${progress.slice(0, (io.stderr.columns ?? 80) - 1)}`)
    const limits = { limitMs: options.checkLimitMs ?? checkLimitMs, stop: options.stop }
    const line = await ask(check, asker, { io, ...limits })
    if (io.stderr.isTTY === true) io.stderr.write(eraseLine)
    if (options.stop?.aborted === true) return undefined
    options.onLine?.(line)
    lines.push(line)
  }
  return { ...head, lines, onlyOnMacs }
}

const asDoctorSays: Readonly<Record<Verdict, DoctorVerdict>> = {
  ...{ asExpected: 'pass', different: 'fail', notHere: 'notApplicable', couldNotAsk: 'notApplicable' },
}

/** As an answer of the doctor: how this machine answers what the agent relies on. */
export const asFinding = ({ id, asks, expected, found, verdict }: ReportLine): DoctorFinding => ({
  ...{ id: `selftest-${id}`, subject: 'machine', verdict: asDoctorSays[verdict], page: 'doctor.md' },
  asks: `Does this machine answer as the agent expects: ${asks}?`,
  says: verdict === 'different' ? `Expected: ${expected}. Found: ${found}.` : `${asks}: ${found}.`,
  ...(verdict === 'different' && {
    action: {
      text: 'This is a bug in Metalbar, or a version of the system that it does not know: report it.',
      shell: 'metal-agent selftest',
    },
  }),
})

async function ask(
  check: Check,
  asker: Omit<Asker, 'leftovers'>,
  { io, limitMs, stop }: { readonly io: CliIo; readonly limitMs: number; readonly stop: AbortSignal | undefined },
): Promise<ReportLine> {
  const { id, asks, expected } = check
  const started = performance.now()
  await using leftovers = new AsyncDisposableStack()
  const { found, verdict } = await withinLimit(check.answer({ ...asker, leftovers }), limitMs, stop)
  const ms = Math.round(performance.now() - started)
  return { id, asks, expected, found: withoutHome(found, io.homeDir), verdict, ms }
}

async function withinLimit(answer: Promise<Finding>, limitMs: number, stop: AbortSignal | undefined): Promise<Finding> {
  const { promise: late, resolve } = Promise.withResolvers<Finding>()
  const stopped = () => resolve(notAsked('stopped'))
  stop?.addEventListener('abort', stopped)
  const timer = setTimeout(() => resolve(notAsked(`no answer within ${Math.round(limitMs / 1_000)} s`)), limitMs)
  try {
    return await Promise.race([answer.catch((error: unknown) => notAsked(messageOf(error))), late])
  } finally {
    clearTimeout(timer)
    stop?.removeEventListener('abort', stopped)
  }
}

/** `macOS 26.1 (25B78), Apple M4 Max`; without what cannot be asked. */
async function systemName(isMac: boolean, run: CommandRunner): Promise<string> {
  if (!isMac) return `Linux ${release()}`
  const answerOf = async (command: string, ...args: readonly string[]) =>
    (await run(command, args).catch(() => ({ stdout: '' }))).stdout.trim()
  const [version, build, chip] = await Promise.all([
    answerOf('/usr/bin/sw_vers', '-productVersion'),
    answerOf('/usr/bin/sw_vers', '-buildVersion'),
    answerOf('/usr/sbin/sysctl', '-n', 'machdep.cpu.brand_string'),
  ])
  return `macOS ${version} (${build})${chip === '' ? '' : `, ${chip}`}`
}

export interface ReportLine extends Pick<Check, 'id' | 'asks' | 'expected'>, Finding {
  readonly ms: number
}

/** What the report is about: neither names nor folders of the person, since it is to be pasted in public. */
export interface ReportHead {
  readonly version: string
  readonly system: string
}

export interface Report extends ReportHead {
  readonly lines: readonly ReportLine[]
  /** Asked on Macs only. */
  readonly onlyOnMacs: readonly string[]
}

const verdictWords: Readonly<Record<Verdict, string>> = {
  asExpected: 'as expected',
  different: 'DIFFERENT',
  notHere: 'not here',
  couldNotAsk: 'could not ask',
}

const column = 15

export const headText = ({ version, system }: ReportHead): string => `metal-agent selftest ${version} on ${system}\n\n`

/** Three lines, of which the first says the verdict. */
export function lineText({ id, asks, expected, found, verdict }: ReportLine): string {
  const rows = [
    [verdictWords[verdict], `${asks} (${id})`],
    ['  expected', expected],
    ['  found', found],
  ] as const
  return rows.map(([name, text]) => `${name.padEnd(column)}${text}\n`).join('')
}

export function footText({ lines, onlyOnMacs }: Pick<Report, 'lines' | 'onlyOnMacs'>): string {
  const count = (verdict: Verdict) => lines.filter((line) => line.verdict === verdict).length
  const counts = `${count('asExpected')} as expected, ${count('different')} different, ${count('notHere')} not here, ${count('couldNotAsk')} could not be asked.`
  const rest = onlyOnMacs.length === 0 ? [] : [`For a Mac only: ${onlyOnMacs.join(', ')}.`]
  const advice = 'What only a person can check is in docs/verified.md. To report, paste all of this into an issue.'
  return `\n${[counts, ...rest, advice].join('\n')}\n`
}
