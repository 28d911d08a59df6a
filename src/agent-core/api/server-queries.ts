import type { Platform } from '../platform/platform.ts'
import { flagName } from '../runtimes/llama-server-flags.ts'
import { follow, tail } from '../servers/output-reader.ts'
import type { ReadableOutput } from '../servers/output.ts'
import type { Servers } from '../servers/servers.ts'
import { messageOf } from '../util/message-of.ts'
import { keyOf } from '../util/object-key.ts'
import { isSecretFlag } from '../util/redact.ts'
import { cleanText, sentence } from '../../contract/clean-text.ts'
import { LinkError, type Listener, type Unsubscribe } from '../../contract/client.ts'
import type { ServiceRef } from '../../contract/commands.ts'
import type { StreamItem, StreamRequest } from '../../contract/log.ts'
import type { Answer, Query, ServerDetailsView } from '../../contract/queries.ts'
import { shellCommand } from '../../contract/shell.ts'

export interface ServerDetailsSources {
  readonly servers: Pick<Servers, 'get' | 'commandOf' | 'lastFailure'>
  readonly platform: Pick<Platform, 'process'>
}

/** Enough to see what led to the end; the file has the rest. */
const maxCrashLines = 40
const maxLineBytes = 1_000
/** Longer than a system lets a usual command line be. */
const maxCommandBytes = 16_384

/** What is too long for the snapshot about the server of one service. */
export async function serverDetails(
  { servers, platform }: ServerDetailsSources,
  { namespace, name }: ServiceRef,
): Promise<ServerDetailsView> {
  const key = keyOf(namespace, name)
  const lines = servers.lastFailure(key)?.tail.slice(-maxCrashLines) ?? []
  return {
    ...(await commandLine({ servers, platform }, key)),
    crashLines: lines.map((line) => sentence(line, maxLineBytes)),
  }
}

async function commandLine(
  { servers, platform }: ServerDetailsSources,
  key: string,
): Promise<Pick<ServerDetailsView, 'commandLine' | 'isUnquoted'>> {
  const state = servers.get(key)
  const pid = state && 'pid' in state ? state.pid : undefined
  if (pid === undefined) return {}
  const command = servers.commandOf(key)
  if (command) {
    const whole = shellCommand(hideSecrets(command))
    const commandLine = sentence(whole, maxCommandBytes)
    return { commandLine, ...(commandLine !== cleanText(whole) && { isUnquoted: true }) }
  }
  const found = await platform.process(pid)
  if (!found) return {}
  return {
    commandLine: sentence(hideSecrets(wordsOf(found.commandLine)).join(' '), maxCommandBytes),
    isUnquoted: true,
  }
}

/** Flags of llama-server whose value is an address, which may have a password or a signature in it. */
const addressFlags: ReadonlySet<string> = new Set(['--model-url', '-mu', '--mmproj-url', '-mmu'])
const hidden = 'hidden'

function hideSecrets(words: readonly string[]): readonly string[] {
  return words.map((word, index) => {
    const before = withHiddenValue(words[index - 1] ?? '', word)
    if (before !== undefined) return before
    const [flag = ''] = word.split('=', 1)
    const value = word.length > flag.length ? withHiddenValue(flag, word.slice(flag.length + 1)) : undefined
    return value === undefined ? word : `${flag}=${value}`
  })
}

/** Undefined where the flag has nothing to hide. */
function withHiddenValue(flag: string, value: string): string | undefined {
  const name = flagName(flag)
  if (isSecretFlag(name)) return hidden
  if (!addressFlags.has(name)) return undefined
  return value.replace(/^([a-z][a-z\d+.-]*:\/\/)?[^/]*@/i, `$1${hidden}@`).replace(/\?.*$/s, `?${hidden}`)
}

/**
 * The words of a command line that lost its quotes. A secret may have contained spaces: it extends to the next word that looks like a
 * flag.
 */
function wordsOf(commandLine: string): readonly string[] {
  const words: string[] = []
  let at: 'elsewhere' | 'flag' | 'value' = 'elsewhere'
  for (const word of commandLine.split(' ')) {
    if (at === 'value' && !word.startsWith('-')) {
      words.push(`${words.pop() ?? ''} ${word}`)
      continue
    }
    words.push(word)
    const [flag = ''] = word.split('=', 1)
    if (at === 'flag') at = 'value'
    else if (withHiddenValue(flag, '') === undefined) at = 'elsewhere'
    else at = word.length > flag.length ? 'value' : 'flag'
  }
  return words
}

/** The newest lines of a run, or those before a place. Throws LinkError where the files cannot be read. */
export async function logPage(
  log: ReadableOutput,
  { run, lines, before }: Extract<Query, { name: 'log' }>,
): Promise<Answer<'log'>> {
  try {
    return await tail(log, { run, lines, before })
  } catch (error) {
    throw unreadable(log, error)
  }
}

type LogFollow = Extract<StreamRequest, { name: 'log' }>

/** The lines written from a cursor on, until the listener leaves. */
export function followLog(log: ReadableOutput, { from }: LogFollow, listener: Listener<StreamItem>): Unsubscribe {
  const left = new AbortController()
  const { signal } = left
  const read = async (): Promise<void> => {
    for await (const chunk of follow(log, { from, signal })) {
      if (signal.aborted) return
      listener.next(chunk)
    }
  }
  read().catch((error: unknown) => {
    if (!signal.aborted) listener.end(unreadable(log, error))
  })
  return () => left.abort()
}

function unreadable({ file }: ReadableOutput, error: unknown): LinkError {
  const why = messageOf(error)
  return new LinkError('refused', `The output in ${file} cannot be read: ${why}.`, { cause: error })
}
