import { constants } from 'node:fs'
import { open, readdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { errorCode } from '../util/error-code.ts'
import { hasCode } from '../util/files.ts'
import { messageOf } from '../util/message-of.ts'
import { isSecretFlag, isSecretName, redacted, redactText, withoutHome } from '../util/redact.ts'
import { cleanLines } from '../../contract/clean-text.ts'
import type { DiagnosticFile } from '../../contract/doctor.ts'

/** A report is read by people and attached to an issue: its end says what happened last. */
const maxFileBytes = 256 * 1024

/** What a report is made of, by the name of its file; texts are kept as they are, all else is written as JSON. */
export type DiagnosticParts = Readonly<Record<string, unknown>>

interface Secrets {
  /** Values that are secrets whatever they stand beside, such as the token of the kubeconfig. */
  readonly values: readonly string[]
  /** The folder of the person, which names them. */
  readonly home: string
}

/** So short a value is found in words that are no secrets. */
const shortestSecret = 6

/** What may leave this machine: without secrets, by the names of fields and by what texts look like, and without the person's folder. */
export function diagnosticFiles(parts: DiagnosticParts, secrets: Secrets): DiagnosticFile[] {
  const clean = cleaner(secrets)
  return Object.entries(parts).map(([name, part]) => {
    const text = typeof part === 'string' ? clean(part) : `${JSON.stringify(withoutSecrets(part, clean), null, 2)}\n`
    return { name, text: end(text) }
  })
}

function cleaner({ values, home }: Secrets): (text: string) => string {
  // One that begins as another does is looked for first, so that nothing of it is left.
  const known = values.filter((value) => value.length >= shortestSecret).toSorted((a, b) => b.length - a.length)
  return (text) => {
    const named = known.reduce((before, value) => before.replaceAll(value, redacted), text)
    return redactText(cleanLines(withoutHome(named, home)))
  }
}

/** Kubernetes keeps in them whole objects as they were applied, and what programs of others note. */
const droppedFields: ReadonlySet<string> = new Set([
  'managedFields',
  'kubectl.kubernetes.io/last-applied-configuration',
])

function withoutSecrets(value: unknown, clean: (text: string) => string): unknown {
  if (typeof value === 'string') return clean(value)
  if (Array.isArray(value)) return withoutNamedSecrets(value.map((item: unknown) => withoutSecrets(item, clean)))
  if (typeof value !== 'object' || value === null) return value
  if (isVariable(value)) return { name: clean(value.name), value: redacted }
  const entries = Object.entries(value).filter(([name]) => !droppedFields.has(name))
  return Object.fromEntries(
    entries.map(([name, item]) => [clean(name), isSecret(name, item) ? redacted : withoutSecrets(item, clean)]),
  )
}

/** A variable of an environment as Kubernetes writes it: whatever its name, a value may be a secret. */
const isVariable = (value: object): value is { readonly name: string; readonly value: string } =>
  'name' in value && typeof value.name === 'string' && 'value' in value && typeof value.value === 'string'

/** A number or a switch under such a name is no secret: `tokens: 12`. */
const isSecret = (name: string, value: unknown): boolean =>
  isSecretName(name) && (typeof value === 'string' || (typeof value === 'object' && value !== null))

/** In a list of arguments the secret stands behind its flag. */
const withoutNamedSecrets = (items: readonly unknown[]): unknown[] =>
  items.map((item, index) => {
    const before = items[index - 1]
    return typeof before === 'string' && isSecretFlag(before) ? redacted : item
  })

/** The last whole lines of a text that is too long. */
function end(text: string): string {
  const bytes = Buffer.from(text)
  if (bytes.length <= maxFileBytes) return text
  const tail = bytes.subarray(bytes.length - maxFileBytes).toString('utf8')
  return `… earlier lines are left out\n${tail.slice(tail.indexOf('\n') + 1)}`
}

/** The last whole lines of a file, or one sentence why it cannot be read; undefined where there is none. */
export const endOfFile = (file: string): Promise<string | undefined> => linesOf(file, 'last')

/** Some of the whole lines of a file that is too long: a line that is cut may have a part of a secret. */
async function linesOf(file: string, which: 'first' | 'last'): Promise<string | undefined> {
  try {
    // O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
    await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK)
    const found = await handle.stat()
    if (!found.isFile()) return 'It is not a file.\n'
    const from = which === 'first' ? 0 : Math.max(0, found.size - maxFileBytes)
    const buffer = Buffer.alloc(Math.min(found.size, which === 'first' ? maxCrashBytes : maxFileBytes))
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, from)
    const text = buffer.subarray(0, bytesRead).toString('utf8')
    if (bytesRead === found.size) return text
    if (which === 'first') return `${text.slice(0, text.lastIndexOf('\n') + 1)}… later lines are left out\n`
    const lineEnd = text.indexOf('\n')
    return lineEnd === -1 ? '' : text.slice(lineEnd + 1)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    if (errorCode(error) !== undefined) return `It cannot be read: ${messageOf(error)}.\n`
    throw error
  }
}

/** What macOS wrote of a crash of the app, of the agent or of llama-server; the app's memory, which is beside it, stays here. */
const crashName = /^(?:Metalbar|metal-agent|llama-server)[-_ ].*\.(?:ips|crash)$/
const maxCrashes = 4
/** Its first lines have the cause and the thread that crashed; the others name libraries. */
const maxCrashBytes = 128 * 1024

/** The newest reports of crashes on a Mac; none elsewhere. */
export async function crashReports(home: string): Promise<DiagnosticParts> {
  const folder = path.join(home, 'Library/Logs/DiagnosticReports')
  // Without the folder there was none, and what may not be read is not for us.
  const names = (await readdir(folder).catch(() => [])).filter((name) => crashName.test(name))
  const found = await Promise.all(
    names.map(async (name) => {
      const facts = await stat(path.join(folder, name)).catch(() => undefined)
      return { name, at: facts?.mtimeMs ?? 0 }
    }),
  )
  const newest = found.toSorted((a, b) => b.at - a.at).slice(0, maxCrashes)
  const parts = newest.map(async ({ name }) => [`crashes/${name}`, await linesOf(path.join(folder, name), 'first')])
  return Object.fromEntries(await Promise.all(parts)) as DiagnosticParts
}
