import { homedir } from 'node:os'
import { conditions, contexts, events, fleet, unserved } from './cluster-queries.ts'
import { knownService, type Rooms } from './command.ts'
import { diagnostics } from './diagnostics.ts'
import { deletion } from './delete-model.ts'
import { fit } from './fit-query.ts'
import { fromCluster } from './from-cluster.ts'
import { hostAddresses, powerRule, sizing } from './machine-queries.ts'
import { logPage, serverDetails } from './server-queries.ts'
import { doctorChecks } from '../doctor/checks.ts'
import { examine, type Patient } from '../doctor/doctor.ts'
import { hubLogin, type LoginSources } from '../models/hub/token.ts'
import { installCommand } from '../runtimes/install-command.ts'
import { keyOf, refKey } from '../util/object-key.ts'
import { LinkError, withdrawn } from '../../contract/client.ts'
import type { DoctorReport } from '../../contract/doctor.ts'
import type { Answer, Query, RuntimeView } from '../../contract/queries.ts'

/** Throws LinkError, with code `refused`, where there is no answer, or nobody waits for it. */
export async function answer(rooms: Rooms, query: Query, signal = new AbortController().signal): Promise<Answer> {
  try {
    return await answerTo(rooms, query, signal)
  } catch (error) {
    throw signal.aborted ? withdrawn(error) : error
  }
}

async function answerTo(rooms: Rooms, query: Query, signal: AbortSignal): Promise<Answer> {
  const { history, settings, link, models, address, platform, env } = rooms
  switch (query.name) {
    case 'history':
      return history.page(query)
    case 'settings':
      return {
        settings: settings.views(),
        start: settings.startViews(),
        ...(settings.startFile !== undefined && { startFile: settings.startFile }),
      }
    case 'contexts':
      return contexts({ file: settings.current.kubeconfig, env }, link.session?.cluster.api.context)
    case 'hostAddresses':
      return hostAddresses(platform.interfaces(), {
        address: address.current,
        automatic: settings.hostAddress.by === 'automatic',
      })
    case 'events': {
      const { cluster, reconciler } = sessionOf(rooms)
      const isShown = (namespace: string, name: string) => reconciler.report(keyOf(namespace, name)) !== undefined
      return events({ api: cluster.api, namespace: cluster.namespace, isShown }, query, signal)
    }
    case 'conditions':
      return conditions(sessionOf(rooms).cluster, query.service)
    case 'deletion': {
      const known = knownService(rooms, query.service)
      if (typeof known === 'string') throw new LinkError('refused', known)
      return deletion(known.session.cluster.api, query.service)
    }
    case 'runtimes':
      return { runtimes: await runtimesHere(rooms) }
    case 'doctor':
      return report(rooms, signal)
    case 'diagnostics':
      return diagnostics({
        patient: patient(rooms),
        ...{ settings, history, cluster: link.session?.cluster },
        report: () => report(rooms, signal),
        hubLogin: loginSources(rooms),
      })
    case 'unserved':
      return unserved(sessionOf(rooms).reconciler.unserved())
    case 'fromCluster':
      return fromCluster(sessionOf(rooms).cluster, query, signal)
    case 'fleet': {
      const { cluster, lease } = sessionOf(rooms)
      return fleet({ api: cluster.api, namespace: lease.ref.namespace, nodeId: rooms.nodeId }, signal)
    }
    case 'models':
      return models.view()
    case 'hubLogin':
      return hubLogin(loginSources(rooms))
    case 'powerRule':
      return powerRule({ platform: platform.name, ...rooms.powerTrial })
    case 'sizing':
      return sizing(rooms)
    case 'fit':
      return fit(rooms, query, signal)
    case 'server':
      return serverDetails(rooms, query.service)
    case 'log':
      return logPage(rooms.servers.outputOf(refKey(query.service)), query)
  }
}

const report = (rooms: Rooms, signal: AbortSignal): Promise<DoctorReport> =>
  examine(patient(rooms), doctorChecks, { signal })

/** This machine and its agent as they are now. */
function patient(rooms: Rooms): Patient {
  const { platform, env, powerTrial, settings, link, relays, gateway, snapshot } = rooms
  const { session } = link
  return {
    ...{ platform, env, settings: settings.current },
    context: () => Promise.resolve(link.servedContext ?? link.choice.load()),
    runtimes: () => rooms.installed.look({ again: true }),
    powerRule: () => powerRule({ platform: platform.name, ...powerTrial }),
    hostAddress: () => Promise.resolve(rooms.address.current),
    isOwnGateway: async (pid) => (await gateway?.isOwn(pid)) ?? false,
    agent: {
      snapshot: snapshot(),
      slices: session ? [...session.cluster.slices.values()] : [],
      serverNow: session?.cluster.api.serverNow() ?? Date.now(),
      leaseNotice: session?.lease.notice,
      ingress: {
        port: relays.port,
        state: relays.state,
        notice: relays.notice,
        tokenProblem: (namespace) => relays.tokenProblem(namespace),
        answers: async () => (await gateway?.counts())?.ingress,
      },
    },
  }
}

const loginSources = ({ env, keptHubToken, settings }: Rooms): LoginSources => ({
  ...{ env, home: homedir(), keptHubToken, hubTokenFile: settings.current.hubTokenFile },
})

/** The runtimes of this machine; each that is missing has the command that installs it. */
async function runtimesHere({ installed, platform, env }: Rooms): Promise<RuntimeView[]> {
  const views = await installed.look({ again: true })
  const search = { system: platform.name, path: env['PATH'] }
  const lines = await Promise.all(
    views.map(async ({ name, path }) => (path === undefined ? installCommand(name, search) : undefined)),
  )
  return views.map((view, index) => ({ ...view, install: lines[index] }))
}

/** Throws LinkError. */
function sessionOf({ link }: Rooms) {
  const { session } = link
  if (!session) throw new LinkError('refused', `There is no cluster to ask: ${link.view().message}`)
  return session
}
