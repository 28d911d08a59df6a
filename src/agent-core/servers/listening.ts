import type { ListenMode } from '../../contract/settings-table.ts'

/** The addresses at which our servers may listen, besides the published one. */
export const everyAddress = '0.0.0.0'
export const loopback = '127.0.0.1'

/** Where a server listens, as its arguments say; agents that did not say it told every server to listen everywhere. */
export function hostIn(argv: readonly string[]): string {
  const at = argv.indexOf('--host')
  return (at === -1 ? undefined : argv[at + 1]) ?? everyAddress
}

/** The same of a command line whose words are not known apart; undefined where it does not say. */
export const hostInText = (commandLine: string): string | undefined =>
  / --host (\d+\.\d+\.\d+\.\d+)(?: |$)/.exec(commandLine)?.[1]

/** Where this machine asks a server that listens at `host`: health checks, figures and the gateway all go there. */
export const askedAt = (host: string): string => (host === everyAddress ? loopback : host)

/** Where a server that is started now listens: on loopback if there is no published address. */
export function hostFor(mode: ListenMode, published: string | undefined): string {
  if (mode === 'all') return everyAddress
  return mode === 'published' ? (published ?? loopback) : loopback
}
