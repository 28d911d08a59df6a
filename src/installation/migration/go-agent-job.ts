import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { parse } from 'plist'
import { z } from 'zod'
import { hasCode } from '../../agent-core/util/files.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import type { InstallationHost } from '../installation-host.ts'
import type { LaunchdDomain } from '../launchctl.ts'
import { serviceLabel } from '../service/service-names.ts'

const word = z.string().max(4_096)
const plist = z.looseObject({
  Label: z.string().min(1).max(255),
  Program: word.optional(),
  ProgramArguments: z.array(word).max(500).optional(),
  EnvironmentVariables: z.record(z.string().max(256), word).default({}),
  StandardErrorPath: word.optional(),
  StandardOutPath: word.optional(),
})

/** A plist that starts LLMKube's Go agent. */
export interface GoAgentJob {
  readonly file: string
  readonly label: string
  readonly domain: LaunchdDomain
  readonly program: string
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  readonly logFile: string | undefined
}

export type JobReading =
  | { readonly ok: true; readonly job: GoAgentJob }
  /** One sentence about a file that may be one. */
  | { readonly ok: false; readonly message: string }

export const goAgentProgram = 'llmkube-metal-agent'

const maxPlistBytes = 256 * 1_024

/** The one that is named, or every one that launchd would load. */
export async function findGoAgentJobs(host: InstallationHost, file: string | undefined): Promise<JobReading[]> {
  if (file !== undefined) return [await readJob(file, domainOf(file, host))]
  const readings = await Promise.all(
    launchdFolders(host).map(async ({ folder, domain }) => {
      const names = (await namesIn(folder)).filter((name) => name.endsWith('.plist'))
      const inFolder = await Promise.all(names.sort().map((name) => lookAt(path.join(folder, name), domain)))
      return inFolder.filter((reading) => reading !== undefined)
    }),
  )
  return readings.flat()
}

const launchdFolders = ({ user, systemRoot }: InstallationHost) => [
  { folder: path.join(user.homeDir, 'Library/LaunchAgents'), domain: `gui/${user.id}` as const },
  { folder: path.join(systemRoot, 'Library/LaunchAgents'), domain: `gui/${user.id}` as const },
  { folder: path.join(systemRoot, 'Library/LaunchDaemons'), domain: 'system' as const },
]

const domainOf = (file: string, { user }: InstallationHost): LaunchdDomain =>
  /\/LaunchDaemons\//.test(path.resolve(file)) ? 'system' : `gui/${user.id}`

/** Undefined where it has nothing to do with the Go agent. */
async function lookAt(file: string, domain: LaunchdDomain): Promise<JobReading | undefined> {
  const reading = await readJob(file, domain)
  if (!reading.ok) {
    const name = path.basename(file).toLowerCase()
    const [, ...behind] = name.split('llmkube')
    const isNamedSo = behind.join('').includes('metal-agent') && !path.basename(file).startsWith(serviceLabel)
    return isNamedSo ? reading : undefined
  }
  const { label, program } = reading.job
  const isOurs = label === serviceLabel
  return !isOurs && path.basename(program) === goAgentProgram ? reading : undefined
}

/** One plist, whatever it starts. */
export async function readJob(file: string, domain: LaunchdDomain): Promise<JobReading> {
  const refused = (why: string): JobReading => ({ ok: false, message: `${file} ${why}` })
  let content: Buffer
  try {
    content = await readFile(file)
  } catch (error) {
    return refused(`cannot be read: ${messageOf(error)}.`)
  }
  if (content.length > maxPlistBytes) return refused('is too large for a plist of launchd.')
  let value: unknown
  try {
    value = parsed(content)
  } catch (error) {
    return refused(
      `is no complete plist (${firstLine(messageOf(error))}): "plutil -lint" says where; mend it, or name another with --plist.`,
    )
  }
  const checked = plist.safeParse(value)
  if (!checked.success) {
    const [issue] = checked.error.issues
    return refused(`is not a job of launchd: ${issue?.path.join('.') || 'the plist'} ${issue?.message ?? ''}.`)
  }
  const {
    Label,
    Program,
    ProgramArguments = [],
    EnvironmentVariables,
    StandardErrorPath,
    StandardOutPath,
  } = checked.data
  const program = Program ?? ProgramArguments[0]
  if (program === undefined) return refused('names no program: ProgramArguments is empty.')
  return {
    ok: true,
    job: {
      file,
      label: Label,
      domain,
      program,
      args: ProgramArguments.slice(1),
      environment: EnvironmentVariables,
      logFile: StandardErrorPath ?? StandardOutPath,
    },
  }
}

/** XML or binary. */
function parsed(content: Buffer): unknown {
  if (content.subarray(0, 6).toString('latin1') === 'bplist') return parse(new Uint8Array(content))
  const text = content.toString('utf8')
  // What is cut off inside of an element is read as if it ended there.
  if (!/<\/plist>\s*$/.test(text)) throw new Error('it has no end')
  return parse(text)
}

const firstLine = (text: string): string => text.split('\n')[0]?.slice(0, 200) ?? ''

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if (hasCode(error, 'ENOENT') || hasCode(error, 'EACCES')) return []
    throw error
  }
}
