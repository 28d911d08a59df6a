import { sentence } from '../../contract/clean-text.ts'
import type { ServiceRef } from '../../contract/commands.ts'
import type { ServerDetailsView } from '../../contract/queries.ts'
import { shellCommand } from '../../contract/shell.ts'
import type { Platform } from '../platform/platform.ts'
import type { Servers } from '../process/servers.ts'
import { keyOf } from '../support/object-key.ts'

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
  if (command) return { commandLine: sentence(shellCommand(hideSecrets(command)), maxCommandBytes) }
  const found = await platform.process(pid)
  if (!found) return {}
  return {
    commandLine: sentence(hideSecrets(found.commandLine.split(' ')).join(' '), maxCommandBytes),
    isUnquoted: true,
  }
}

/** The flags of llama-server whose value is a secret. */
const secretFlags: ReadonlySet<string> = new Set(['--api-key', '--hf-token', '-hft'])
const hidden = 'hidden'

function hideSecrets(words: readonly string[]): readonly string[] {
  return words.map((word, index) => {
    if (secretFlags.has(words[index - 1] ?? '')) return hidden
    const [flag = ''] = word.split('=', 1)
    return secretFlags.has(flag) && word.length > flag.length ? `${flag}=${hidden}` : word
  })
}
