import { writeFile } from 'node:fs/promises'
import { release } from 'node:os'
import path from 'node:path'
import { styleText } from 'node:util'
import type { Command } from 'commander'
import { z } from 'zod'
import { buildInfo } from '../agent-core/agent/build-info.ts'
import { messageOf } from '../agent-core/util/message-of.ts'
import { cleanText } from '../contract/clean-text.ts'
import {
  type DiagnosticFile,
  type DoctorFinding,
  type DoctorReport,
  type FleetMember,
  probeImage,
  type Verdict,
} from '../contract/doctor.ts'
import { formatBytes, formatDecimal, formatSpan } from '../contract/format.ts'
import { summaryWords } from '../contract/words.ts'
import {
  agentVerb,
  ifAgentRuns,
  run,
  sayingLinkErrors,
  send,
  serviceNamed,
  VerbError,
  type VerbContext,
} from './agent-session.ts'
import { type CliIo, columns, exitCodes, isYes } from './io.ts'
import { patientHere, type PatientWish } from './patient.ts'

const given = z.object({
  json: z.boolean().default(false),
  stateDir: z.string(),
  kubeconfig: z.string().optional(),
  context: z.string().optional(),
  namespace: z.string().optional(),
  page: z.string().optional(),
  fix: z.string().optional(),
  yes: z.boolean().default(false),
  fromCluster: z.string().optional(),
  report: z.union([z.string(), z.literal(true)]).optional(),
  image: z.string().optional(),
})
type Given = z.infer<typeof given>

/** Asks the agent that runs, or this machine where none does. */
export function doctorVerb(context: VerbContext): Command {
  return agentVerb('doctor', 'find out why a model is not served or cannot be reached, and what helps', context)
    .option('--fix <id>', 'apply the fix that the agent offers for this finding')
    .option(
      '--report [file]',
      'write a zip file for whoever helps you: contains no secrets, and is shown to you first; default: metalbar-report-DATE.zip in this folder',
    )
    .option('--yes', 'do not ask for confirmation')
    .option('--from-cluster <service>', 'test this service from a Pod in the cluster')
    .option(
      '--image <image>',
      'with --from-cluster: the image of the Pod, which has sh and wget; busybox:1.37 without it',
    )
    .option('--page <id>', 'print the documentation of this check')
    .option('--kubeconfig <file>', 'without a running agent: the kubeconfig to use')
    .option('--context <context>', 'without a running agent: the context to use')
    .option('-n, --namespace <namespace>', 'without a running agent: the namespace to watch, "" for all')
    .argument('[flags...]', 'after --, without a running agent: the flags to check with')
    .action(async (flags: string[], options: unknown) => {
      const wish = given.parse(options)
      if (wish.page !== undefined) {
        context.io.stdout.write(await pageOf(wish.page))
        context.end(exitCodes.done)
      } else if (wish.report !== undefined) {
        const { report } = wish
        context.end(await sayingLinkErrors(context.io, () => writeReport(context, options, { ...wish, report })))
      } else if (wish.fromCluster !== undefined) await askedFromCluster(context, options, wish.fromCluster, wish.image)
      else if (wish.fix === undefined) context.end(await examined(context, options, { ...wish, flags }))
      else await fixed(context, options, { ...wish, fix: wish.fix })
    })
}

async function examined(
  context: VerbContext,
  options: unknown,
  wish: Given & { readonly flags: readonly string[] },
): Promise<number> {
  const { io } = context
  return sayingLinkErrors(io, async () => {
    const asked = await ifAgentRuns(context, options, (agent) => agent.query({ name: 'doctor' }))
    const report = asked ?? (await examineHere(io, { stateDir: wish.stateDir, flags: flagsOf(wish) }))
    io.stdout.write(wish.json ? `${JSON.stringify(report, null, 2)}\n` : renderReport(report, io))
    return report.findings.some(({ verdict }) => verdict === 'fail') ? exitCodes.failed : exitCodes.done
  })
}

/** As the agent takes them; what stands after -- counts most. */
function flagsOf({ kubeconfig, context, namespace, flags }: Given & { readonly flags: readonly string[] }): string[] {
  const stated = Object.entries({ kubeconfig, context, namespace })
  return [...stated.flatMap(([name, value]) => (value === undefined ? [] : [`--${name}=${value}`])), ...flags]
}

/** Ctrl-C closes the connection, upon which the agent deletes the Pod. */
async function askedFromCluster(
  context: VerbContext,
  options: unknown,
  name: string,
  given: string | undefined,
): Promise<void> {
  const { io } = context
  await run(context, options, async (agent, { json }) => {
    const image = probeImage.optional().safeParse(given)
    if (!image.success) throw new VerbError(`--image ${image.error.issues[0]?.message ?? 'is no image'}.`)
    const { services } = await agent.snapshot()
    if (io.stderr.isTTY === true)
      io.stderr.write('A Pod in the cluster sends test requests; this takes up to a minute.\n')
    const found = await agent.query({ name: 'fromCluster', service: serviceNamed(name, services), image: image.data })
    io.stdout.write(json ? `${JSON.stringify(found)}\n` : `${cleanText(found.says)}\n`)
    return found.isReached ? exitCodes.done : exitCodes.failed
  })
}

/** Asks again before it does anything: what was found a while ago may be over. */
async function fixed(context: VerbContext, options: unknown, { fix, yes }: Given & { readonly fix: string }) {
  const { io } = context
  await run(context, options, async (agent, { json }) => {
    const { findings } = await agent.query({ name: 'doctor' })
    const finding = findings.find(({ id }) => id === fix)
    if (!finding) {
      throw new VerbError(
        `There is no finding ${JSON.stringify(fix)}: it is one of ${findings.map(({ id }) => id).join(', ')}.`,
      )
    }
    const { says, action } = finding
    io.stderr.write(`${cleanText(says)}\n`)
    if (!action?.fix) {
      const left = action ? `${action.text}${action.shell === undefined ? '' : ` In Terminal: ${action.shell}`}` : ''
      io.stderr.write(`metal-agent: The agent cannot fix this itself. ${left}\n`)
      return exitCodes.notAvailable
    }
    if (!yes && !isYes(await io.ask?.(`${action.fix.label}? [y/N] `))) {
      if (!io.ask) io.stderr.write('metal-agent: There is no terminal to confirm on: run it again with --yes.\n')
      return exitCodes.refused
    }
    return send(agent, action.fix.command, { io, json })
  })
}

/** What this terminal finds, as an agent that is started now would. Throws VerbError. */
async function examineHere(io: CliIo, wish: PatientWish): Promise<DoctorReport> {
  const { doctorChecks } = await import('../agent-core/doctor/checks.ts')
  const { examine } = await import('../agent-core/doctor/doctor.ts')
  return examine(await patientHere(io, wish), doctorChecks)
}

/** Where `docs/` says more about an answer, as it is written there. */
async function pageOf(id: string): Promise<string> {
  const { doctorChecks } = await import('../agent-core/doctor/checks.ts')
  const { docsPage } = await import('./docs-page.ts')
  const all = doctorChecks.flatMap(([, checks]) => checks)
  const page = all.find((check) => check.id === id)?.page
  if (page !== undefined) return docsPage(page)
  throw new VerbError(
    `There is no check ${JSON.stringify(id)}: it is one of ${all.map((check) => check.id).join(', ')}.`,
  )
}

const words: Readonly<Record<Verdict, string>> = { pass: 'ok', warn: 'WARNING', fail: 'FAILURE', notApplicable: '-' }
const colours = { pass: 'green', warn: 'yellow', fail: 'red', notApplicable: 'dim' } as const satisfies Record<
  Verdict,
  string
>

/** A line for each question, and below what is not in order what to do about it. */
export function renderReport({ findings, tookMs }: DoctorReport, io: Pick<CliIo, 'stdout'>): string {
  const isColoured = io.stdout.isTTY === true
  const wide = Math.max(...findings.map(({ id }) => id.length))
  const shown = (finding: DoctorFinding) => {
    const { verdict } = finding
    const word = words[verdict].padEnd(8)
    const mark = isColoured ? styleText(colours[verdict], word, { validateStream: false }) : word
    return `${mark} ${finding.id.padEnd(wide)}  ${cleanText(finding.says)}\n${adviceOf(finding, ' '.repeat(wide + 11))}`
  }
  return `${findings.map(shown).join('')}\n${summaryWords.doctor(findings)}; took ${formatDecimal(tookMs / 1_000)} s.\n`
}

function adviceOf({ id, verdict, action }: DoctorFinding, indent: string): string {
  if (verdict !== 'warn' && verdict !== 'fail') return ''
  const lines = [
    ...(action ? [action.text] : []),
    ...(action?.shell === undefined ? [] : [`$ ${action.shell}`]),
    ...(action?.fix ? [`$ metal-agent doctor --fix ${id}`] : []),
    `More: metal-agent doctor --page ${id}`,
  ]
  return lines.map((line) => `${indent}${cleanText(line)}\n`).join('')
}

/** Every Mac of the cluster that tells of itself. */
export const fleetVerb = (context: VerbContext): Command =>
  agentVerb('fleet', 'list every Mac of the cluster, with its runtimes, memory and models', context).action(
    (options: unknown) =>
      run(context, options, async (agent, { json }) => {
        const answer = await agent.query({ name: 'fleet' })
        const { now } = await agent.snapshot()
        const rows = answer.members.map((member) => fleetRow(member, Date.parse(now)))
        const titles = ['', 'MAC', 'VERSION', 'RUNTIMES', 'BUDGET', 'SERVES', 'HEARD']
        context.io.stdout.write(json ? `${JSON.stringify(answer, null, 2)}\n` : columns(titles, rows))
        return exitCodes.done
      }),
  )

function fleetRow(member: FleetMember, now: number): string[] {
  const { host, isThisOne, version = '', runtimes, budgetBytes, modelsServed, isPaused, heardAt } = member
  return [
    isThisOne ? '*' : '',
    host,
    version,
    runtimes.map(({ name }) => name).join(', '),
    budgetBytes === undefined ? '' : formatBytes(budgetBytes),
    `${modelsServed ?? ''}${isPaused ? ' (paused)' : ''}`,
    heardAt === undefined ? 'never' : `${formatSpan(now - Date.parse(heardAt))} ago`,
  ]
}

/** A zip file to send to whoever is to help: its contents are shown before it is written. */
async function writeReport(
  context: VerbContext,
  options: unknown,
  { report, stateDir, yes }: Given & { readonly report: string | true },
): Promise<number> {
  const { io } = context
  const asked = await ifAgentRuns(context, options, (agent) => agent.query({ name: 'diagnostics' }))
  const files = asked?.files ?? (await filesHere(io, stateDir))
  const name = report === true ? `metalbar-report-${new Date().toISOString().slice(0, 10)}.zip` : report
  const file = path.resolve(io.cwd, name)
  const rows = files.map(({ name, text }) => [name, formatBytes(Buffer.byteLength(text))])
  io.stdout.write(
    `${columns(['FILE', 'SIZE'], rows)}\nTokens, passwords, keys and the path of your home are left out. Names of machines and the output of servers are included: look through the file before you send it.\n`,
  )
  if (!yes && !isYes(await io.ask?.(`Write ${file}? [y/N] `))) {
    if (!io.ask) io.stderr.write('metal-agent: There is no terminal to confirm on: run it again with --yes.\n')
    return exitCodes.refused
  }
  const { strToU8, zipSync } = await import('fflate')
  const zip = zipSync(Object.fromEntries(files.map(({ name, text }) => [name, strToU8(text)])))
  try {
    await writeFile(file, zip, { flag: 'wx', mode: 0o600 })
  } catch (error) {
    io.stderr.write(`metal-agent: ${file} cannot be written: ${messageOf(error)}.\n`)
    return exitCodes.failed
  }
  io.stdout.write(`${file} is written.\n`)
  return exitCodes.done
}

/** What is found here where no agent runs, without what this machine logs in with. */
async function filesHere(io: CliIo, stateDir: string): Promise<readonly DiagnosticFile[]> {
  const [{ crashReports, diagnosticFiles }, { secretsOf }, { examine }, { doctorChecks }] = await Promise.all([
    import('../agent-core/doctor/diagnostics.ts'),
    import('../agent-core/api/diagnostics.ts'),
    import('../agent-core/doctor/doctor.ts'),
    import('../agent-core/doctor/checks.ts'),
  ])
  const patient = await patientHere(io, { stateDir, flags: [] })
  const about = { version: buildInfo.version, node: process.version, system: `${io.platform} ${release()}` }
  const { hubTokenFile } = patient.settings
  const values = await secretsOf(patient, { env: io.env, home: io.homeDir, hubTokenFile })
  const parts = {
    'about.json': about,
    'doctor.json': await examine(patient, doctorChecks),
    ...(await crashReports(io.homeDir)),
  }
  return diagnosticFiles(parts, { values, home: io.homeDir })
}
