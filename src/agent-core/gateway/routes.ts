import { basename } from 'node:path'
import type { GatewayRoute } from '../../contract/gateway.ts'
import { sentence } from '../../contract/clean-text.ts'
import type { ServerState } from '../servers/server-state.ts'
import type { Servers } from '../servers/servers.ts'
import { splitKey } from '../util/object-key.ts'

const maxNameLength = 1_024

/** Where requests for each service go, as far as its server is or comes back. `why`: what a person is told of a service. */
export function gatewayRoutes(
  servers: Pick<Servers, 'state' | 'commandOf'>,
  why: (key: string) => string | undefined,
): GatewayRoute[] {
  return [...servers.state()]
    .filter(([, state]) => state.kind !== 'exited' || state.cause !== 'stopped')
    .map(([key, state]) => {
      const port = portOf(state)
      return {
        ...splitKey(key),
        runtime: 'llama-server',
        names: namesOf(servers.commandOf(key) ?? []),
        ...(port === undefined ? { message: sentence(why(key) ?? 'its server does not serve yet.', 1_000) } : { port }),
      }
    })
}

/** A server that an earlier agent left serves on before it is asked for the first time. One that does not answer may yet answer this one. */
function portOf(state: ServerState): number | undefined {
  if (state.kind === 'ready') return state.port
  return state.kind === 'starting' && state.unasked ? state.port : undefined
}

/** Its alias, and the file of its model. */
function namesOf(command: readonly string[]): string[] {
  const aliases = valuesOf(command, '--alias', '-a').flatMap((text) => text.split(','))
  const files = valuesOf(command, '--model', '-m').map((file) => basename(file))
  const names = [...aliases, ...files, ...files.map((file) => file.replace(/\.gguf$/i, ''))]
  return [...new Set(names)].filter((name) => name !== '' && name.length <= maxNameLength).slice(0, 20)
}

const valuesOf = (command: readonly string[], ...flags: readonly string[]): string[] =>
  command.flatMap((word, index) => {
    const [flag = '', ...value] = word.split('=')
    if (!flags.includes(flag)) return []
    return value.length > 0 ? [value.join('=')] : [command[index + 1] ?? '']
  })
