import { build, parse, type PlistValue } from 'plist'
import { z } from 'zod'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { serviceLabel } from './service-names.ts'
import { commandLine, openFiles, ownerOnly, restartDelayS, type ServicePlan } from './service-plan.ts'
import { byFlag, marked, UnitTextError, type UnitContent } from './unit-text.ts'

/** Lines of the file before its first element: the XML declaration and the document type. */
const linesOfHead = 2

const bundleId = 'dev.metalbar.app'

/** The file of launchd; see launchd.plist(5). */
export function launchdPlist(plan: ServicePlan): string {
  const { workingDirectory, errorFile, exitTimeoutS, userName } = plan
  const text = build({
    Label: serviceLabel,
    ProgramArguments: commandLine(plan),
    // By which System Settings shows it under the name of the app.
    AssociatedBundleIdentifiers: [bundleId],
    ...(userName !== undefined && { UserName: userName, InitGroups: true }),
    EnvironmentVariables: { ...plan.environment },
    WorkingDirectory: workingDirectory,
    Umask: ownerOnly,
    RunAtLoad: true,
    // A shutdown that was asked for ends with 0 and stays; a defect does not, and the next agent takes the servers over.
    KeepAlive: { SuccessfulExit: false },
    ThrottleInterval: restartDelayS,
    ExitTimeOut: exitTimeoutS,
    // Without it launchd ends the model servers with the agent.
    AbandonProcessGroup: true,
    // Anything else is slowed down while somebody works at the Mac, and the servers with it.
    ProcessType: 'Interactive',
    SoftResourceLimits: { NumberOfFiles: openFiles },
    HardResourceLimits: { NumberOfFiles: openFiles },
    StandardOutPath: errorFile,
    StandardErrorPath: errorFile,
  })
  return marked(`${text}\n`, linesOfHead, ['<!-- ', ' -->'])
}

const text = z.string().max(10_000)
const launchdFile = z.looseObject({
  Label: text,
  ProgramArguments: z.array(text).min(1).max(1_000),
  EnvironmentVariables: z.record(text, text).default({}),
  WorkingDirectory: text.optional(),
  StandardErrorPath: text.optional(),
  ExitTimeOut: z.int().optional(),
  UserName: text.optional(),
})

/** Throws UnitTextError. */
export function readLaunchdPlist(content: string): UnitContent {
  const parsed = launchdFile.safeParse(parsedPlist(content))
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    throw new UnitTextError(`is no job of launchd (${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''})`)
  }
  const { Label, ProgramArguments, EnvironmentVariables, WorkingDirectory, StandardErrorPath, ExitTimeOut, UserName } =
    parsed.data
  return {
    label: Label,
    words: ProgramArguments,
    environment: EnvironmentVariables,
    ...(WorkingDirectory !== undefined && { workingDirectory: WorkingDirectory }),
    ...(StandardErrorPath !== undefined && { errorFile: StandardErrorPath }),
    ...(ExitTimeOut !== undefined && { exitTimeoutS: ExitTimeOut }),
    ...(UserName !== undefined && { userName: UserName }),
    values: byFlag(new Map(flat(parsed.data as PlistValue)), 'ProgramArguments', ProgramArguments),
  }
}

function parsedPlist(content: string): PlistValue {
  // The parser answers to what was cut off or damaged in several ways, by its place.
  if (!/<\/plist>\s*$/.test(content)) throw new UnitTextError('ends before its end: it was written only in part')
  try {
    return parse(content)
  } catch (error) {
    throw new UnitTextError(`is no property list (${messageOf(error)})`, { cause: error })
  }
}

function flat(value: PlistValue, path = ''): [string, string][] {
  if (Array.isArray(value)) return [[path, value.map((one) => flat(one).map(([, text]) => text)).join(' ')]]
  if (value === null || typeof value !== 'object' || value instanceof Date || value instanceof Uint8Array) {
    return [[path, String(value)]]
  }
  return Object.entries(value).flatMap(([key, one]) => flat(one, path === '' ? key : `${path}.${key}`))
}
