import { afterAll, beforeAll } from 'vitest'
import { useControlPlane } from '../control-plane/control-plane.ts'
import { type Connection, KubeHttp } from '../controller-stand-in/kube-http.ts'
import type { Rule } from '../kube-sim/access.ts'
import { KubeSim } from '../kube-sim/kube-sim.ts'

/** A namespace on an API server, whichever it is. */
export interface World {
  readonly namespace: string
  /** The administrator's. */
  readonly connection: Connection
  readonly http: KubeHttp
  /** Makes the first version too old to watch from. */
  forget(): Promise<void>
  /** A user who may only do this, and only in the namespace. */
  restricted(rules: readonly Rule[]): Promise<{ connection: Connection; name: string }>
}

/** For what holds the simulation to the real server; everything else is claimed of the real one alone. */
export const apiWorlds: readonly { name: string; use: () => () => World }[] = [
  { name: 'kube-sim', use: useKubeSim },
  { name: 'the real API server', use: useRealApiServer },
]

export function useKubeSim(): () => World {
  let world: World | undefined
  let sim: KubeSim | undefined
  beforeAll(async () => {
    const namespace = 'test-sim'
    const started = await KubeSim.start({ namespaces: ['default', namespace], garbageCollection: false })
    sim = started
    const connection = started.connection()
    world = {
      namespace,
      connection,
      http: new KubeHttp(connection),
      forget: () => {
        started.compact()
        return Promise.resolve()
      },
      restricted: (rules) => {
        const name = `user-${started.users.length}`
        const scoped = rules.map((rule) => ({ ...rule, namespaces: [namespace] }))
        started.users = [...started.users, { name, token: `token-of-${name}`, rules: scoped }]
        return Promise.resolve({ connection: started.connection(name), name })
      },
    }
  })
  afterAll(async () => {
    world?.http.close()
    await sim?.[Symbol.asyncDispose]()
  })
  return () => present(world)
}

export function useRealApiServer(): () => World {
  const cluster = useControlPlane()
  let world: World | undefined
  afterAll(() => {
    world?.http.close()
  })
  return () => {
    const { namespace, connection } = cluster()
    world ??= {
      namespace,
      connection,
      http: new KubeHttp(connection),
      // The definitions are younger than the first version.
      forget: () => Promise.resolve(),
      restricted: async (rules) => {
        const { connection: restricted } = await cluster().restrictedKubeconfig(rules)
        return { connection: restricted, name: serviceAccountOf(restricted.token) }
      },
    }
    return world
  }
}

/** The subject of a service account's token is its user name. */
function serviceAccountOf(token: string): string {
  const [, payload = ''] = token.split('.')
  const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString())
  return typeof claims === 'object' && claims !== null && 'sub' in claims ? String(claims.sub) : ''
}

function present<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('The world is there from beforeAll on.')
  return value
}
