import path from 'node:path'
import { askProgram } from '../../agent-core/util/ask-program.ts'
import type { Logger } from '../../agent-core/observability/logger.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import type { Prepared } from '../agent/shown-agent.ts'
import { machineWords } from '../words.ts'

type Environment = Readonly<Record<string, string | undefined>>

export interface LoginEnvironment {
  /** What is to be set over the environment that there is. */
  readonly set: Readonly<Record<string, string>>
  /** Where the shell itself looks for commands; of one that did not say, what macOS gives every shell. */
  readonly shellPath: string
  /** Why the shell did not say: one sentence. */
  readonly problem?: string
}

export interface LoginEnvironmentOptions {
  readonly env: Environment
  /** This user's, as `SHELL` names it; undefined where nothing does. */
  readonly shell: string | undefined
  readonly limitMs?: number
}

/** A shell with much in its files takes two; nobody waits longer for what may never come. */
const defaultLimitMs = 5_000

/** Where Homebrew puts programs, which neither launchd nor Finder knows. */
const homebrewFolders = ['/opt/homebrew/bin', '/opt/homebrew/sbin', '/usr/local/bin']

/** In `/etc/paths`. */
const foldersOfMacos = ['/usr/local/bin', '/usr/bin', '/bin', '/usr/sbin', '/sbin']

/** The variables that the agent, its downloads and a kubeconfig's credential plugins read; nothing else is taken from the shell. */
const names = new Set(
  ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'ALL_PROXY'].flatMap((name) => [name, name.toLowerCase()]),
)
for (const name of ['PATH', 'KUBECONFIG', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'HUGGING_FACE_HUB_TOKEN']) names.add(name)
const prefixes = ['AWS_', 'AZURE_', 'CLOUDSDK_', 'GOOGLE_', 'HF_', 'USE_GKE_']

export interface TakenEnvironment extends Prepared {
  readonly shellPath: string
}

/**
 * Gives this process, once, what a terminal would have given it; the agent and all that it starts have it from here. A terminal, which sets
 * TERM, has given it already; the Finder and a login give nothing of a shell's.
 */
export async function takeLoginEnvironment(env: NodeJS.ProcessEnv, log: Logger): Promise<TakenEnvironment> {
  if (env['TERM'] !== undefined && env['TERM'] !== '') return { shellPath: env['PATH'] ?? '' }
  const { set, shellPath, problem } = await loginEnvironment({ env, shell: env['SHELL'] })
  Object.assign(env, set)
  if (problem === undefined) log.info('environment of the login shell', { names: Object.keys(set).sort() })
  return { shellPath, ...(problem !== undefined && { problem }) }
}

/** What a login shell would have given this program. Never throws: without an answer PATH gets the folders of Homebrew. */
export async function loginEnvironment(options: LoginEnvironmentOptions): Promise<LoginEnvironment> {
  const { env, shell, limitMs = defaultLimitMs } = options
  if (shell === undefined || !path.isAbsolute(shell)) return withHomebrew(env)
  try {
    const { exitCode, stdout } = await askProgram({
      command: shell,
      // csh and tcsh accept no command as a login shell.
      args: [/^t?csh$/.test(path.basename(shell)) ? '-ic' : '-ilc', shellCommand],
      env: { ...stated(env), ...quiet },
      timeLimitMs: limitMs,
    })
    const said = environmentIn(stdout)
    if (!said) return fallback(env, shell, machineWords.loginShell.noOutput(shell, exitCode))
    const chosen = Object.entries(said).filter(
      ([name]) => names.has(name) || prefixes.some((one) => name.startsWith(one)),
    )
    return {
      set: { ...Object.fromEntries(chosen), PATH: pathOf(said['PATH'], env['PATH']) },
      shellPath: said['PATH'] ?? '',
    }
  } catch (error) {
    return fallback(env, shell, messageOf(error))
  }
}

/** So that files of a shell can tell, and its helpers neither update themselves nor take the terminal. */
const quiet = {
  METALBAR_READS_ENVIRONMENT: '1',
  DISABLE_AUTO_UPDATE: 'true',
  ZSH_TMUX_AUTOSTARTED: 'true',
  ZSH_TMUX_AUTOSTART: 'false',
}

const withHomebrew = ({ PATH = '' }: Environment): LoginEnvironment => ({
  set: { PATH: pathOf(PATH) },
  shellPath: PATH,
})

const fallback = (env: Environment, shell: string, why: string): LoginEnvironment => ({
  ...withHomebrew(env),
  shellPath: foldersOfMacos.join(path.delimiter),
  problem: machineWords.loginShell.none(why, shell),
})

/** Each folder once, those of Homebrew last; a relative one would be below whatever folder this program was started in. */
function pathOf(...parts: readonly (string | undefined)[]): string {
  const folders = parts.flatMap((part) => (part ?? '').split(path.delimiter))
  return [...new Set([...folders.filter((folder) => path.isAbsolute(folder)), ...homebrewFolders])].join(path.delimiter)
}

const stated = (env: Environment): Record<string, string> =>
  Object.fromEntries(Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])))

/** Not as they are printed, so that a shell that echoes its command does not print them. */
const [begin, end] = [
  ['metalbar-env', 'begin'],
  ['metalbar-env', 'end'],
] as const

const markerOf = (parts: readonly [string, string]): string => `<<${parts[0]}-${parts[1]}>>`
const printed = ([what, which]: readonly [string, string]): string => `printf "<<%s-%s>>" ${what} ${which}`

/**
 * What the login shell is asked to run. Quotes alone mean the same in bash, zsh, fish and tcsh, so the rest is left to sh, which has the
 * environment that the shell exports. Older macOS has no `env -0`.
 */
export const shellCommand = `/bin/sh -c '${printed(begin)}; env -0 2>/dev/null || env; ${printed(end)}'`

/** What stands between the marks, whatever the shell's own files print around it; undefined where it did not come that far. */
export function environmentIn(output: string): Readonly<Record<string, string>> | undefined {
  const from = output.lastIndexOf(markerOf(begin))
  const to = output.indexOf(markerOf(end), from)
  if (from === -1 || to === -1) return undefined
  const text = output.slice(from + markerOf(begin).length, to)
  return Object.fromEntries(
    text.split(text.includes('\0') ? '\0' : '\n').flatMap((line) => {
      const at = line.indexOf('=')
      return at > 0 ? [[line.slice(0, at), line.slice(at + 1)] as const] : []
    }),
  )
}
