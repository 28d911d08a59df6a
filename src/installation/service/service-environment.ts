import path from 'node:path'
import type { InstallationHost } from '../installation-host.ts'
import { serviceVariable, type ServiceKind } from './service-names.ts'

/** Where Homebrew and a person put programs, which neither launchd nor systemd knows: credential plugins are looked for there. */
const programFolders = ['/opt/homebrew/bin', '/usr/local/bin', '/usr/bin', '/bin', '/usr/sbin', '/sbin'] as const

/** Variables of the shell that decide which cluster, models and proxies the agent has. */
const taken = [
  ...['KUBECONFIG', 'XDG_CONFIG_HOME', 'XDG_CACHE_HOME', 'XDG_DATA_HOME', 'XDG_STATE_HOME'],
  ...['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy'],
  ...['SSL_CERT_FILE', 'NODE_EXTRA_CA_CERTS', 'HF_HOME', 'HF_ENDPOINT', 'HF_TOKEN_PATH', 'LLAMA_CACHE'],
] as const

/** Secrets, which stand in no file that a service is made of. */
const secrets = ['HF_TOKEN', 'HUGGING_FACE_HUB_TOKEN', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN'] as const

export interface ServiceEnvironment {
  readonly variables: Readonly<Record<string, string>>
  /** One sentence for each variable of the shell that the agent would read, and that is not taken. */
  readonly leftOut: readonly string[]
}

/** What the agent gets of the shell in which it is installed; `stated` counts before all. */
export function serviceEnvironment(
  kind: ServiceKind,
  { env, user }: Pick<InstallationHost, 'env' | 'user'>,
  stated: Readonly<Record<string, string>> = {},
): ServiceEnvironment {
  const given = taken.flatMap((name) => {
    const value = env[name]
    return value === undefined || value === '' ? [] : [[name, value] as const]
  })
  const plain = given.filter(([, value]) => !hasPassword(value))
  const leftOut = [
    ...given.filter(([, value]) => hasPassword(value)).map(([name]) => `${name} has a password in it`),
    ...secrets.filter((name) => (env[name] ?? '') !== '').map((name) => `${name} is a secret`),
  ].filter((sentence) => stated[sentence.split(' ')[0] ?? ''] === undefined)
  return {
    variables: {
      HOME: user.homeDir,
      // launchd states none for a LaunchDaemon, and tools of a kubeconfig ask for it.
      ...(kind === 'launchDaemon' && { USER: user.name, LOGNAME: user.name }),
      PATH: programFolders.join(path.delimiter),
      ...Object.fromEntries(plain),
      ...stated,
      [serviceVariable]: '1',
    },
    leftOut: leftOut.map(
      (why) =>
        `${why}, so the service does not get it: give the agent a file instead (--hub-token-file), or state it with --env where a file of yours may hold it.`,
    ),
  }
}

/** Whether a person, or the shell of the installation, gave it variables beside those that every service has; they may be secrets. */
export const hasGivenVariables = (environment: Readonly<Record<string, string>>): boolean =>
  Object.keys(environment).some((name) => !['HOME', 'USER', 'LOGNAME', 'PATH', serviceVariable].includes(name))

/** As in `http://user:password@proxy:3128`. */
const hasPassword = (text: string): boolean => /\/\/[^/@\s:]*:[^/@\s]*@/.test(text)
