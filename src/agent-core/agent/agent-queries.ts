import { homedir } from 'node:os'
import { LinkError } from '../../contract/client.ts'
import { Looks } from '../api/fit/looks.ts'
import type { KeptRooms, Machine } from './kept-rooms.ts'
import type { LastingRooms } from './lasting-rooms.ts'
import { launchEnvironment } from '../servers/launch.ts'
import type { Sources } from '../api/queries/queries.ts'
import { Runtimes } from '../api/queries/runtimes.ts'
import { llamaServer, type RoomContext } from './room-context.ts'
import { tokenIn } from '../reconcile/model-request.ts'
import { LlamaServerDialects } from '../runtimes/llama-server-binary.ts'
import { refKey } from '../util/object-key.ts'

/** What one query found out and the next need not ask again. */
export class AskedBefore {
  readonly looks = new Looks()
  readonly runtimes = new Runtimes()
  readonly dialects = new LlamaServerDialects()
}

export interface QueriedRooms {
  readonly rooms: LastingRooms
  readonly kept: KeptRooms
  readonly machine: Machine
  readonly asked: AskedBefore
}

/** The rooms of the agent that queries are answered from. */
export function querySources(context: RoomContext, { rooms, kept, machine, asked }: QueriedRooms): Sources {
  const { env, platform, keptHubToken, powerTrial } = context.options
  const { history, settings, link, address } = kept
  const { models, memory, energy, servers } = rooms
  return {
    history,
    settings,
    session: () => link.session,
    clusterMessage: () => link.view().message,
    kubeconfig: { file: context.settings().kubeconfig, env },
    interfaces: () => platform.interfaces(),
    hostAddress: () => address.current,
    models,
    sizing: {
      platform: platform.name,
      memory,
      metal: machine.hasMetal,
      llamaServer: () => llamaServer(context),
      modelStore: context.settings().modelStore,
    },
    fit: {
      looks: asked.looks,
      dialect: (executable) => asked.dialects.of(executable, launchEnvironment()),
      tokenIn: async (namespace, secret) => {
        const { session } = link
        if (!session)
          throw new LinkError(
            'refused',
            `There is no cluster to read the Secret ${secret} from: ${link.view().message}`,
          )
        return tokenIn(session.cluster.api, namespace, secret)
      },
      watchedNamespace: () => context.settings().namespace,
    },
    runtimes: asked.runtimes,
    hubLogin: { env, home: homedir(), keptHubToken },
    powerRule: { platform: platform.name, ...powerTrial },
    energy,
    server: { servers, platform },
    output: (service) => servers.outputOf(refKey(service)),
  }
}
