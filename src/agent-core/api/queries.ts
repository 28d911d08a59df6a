import { conditions, contexts, events, fleet, unserved } from './cluster-queries.ts'
import { diagnostics } from './diagnostics.ts'
import { deletion } from './delete-model.ts'
import { fit, type FitSources } from './fit-query.ts'
import { fromCluster } from './from-cluster.ts'
import {
  evictionPreview,
  type EvictionPreviewSources,
  hostAddresses,
  powerRule,
  type PowerRuleSources,
  sizing,
  type SizingSources,
} from './machine-queries.ts'
import { logPage, serverDetails, type ServerDetailsSources } from './server-queries.ts'
import { memorySettings } from './settings.ts'
import { doctorChecks } from '../doctor/checks.ts'
import { examine, type Patient } from '../doctor/doctor.ts'
import type { LeftPods } from '../doctor/from-cluster.ts'
import type { History } from '../history/history.ts'
import type { Cluster } from '../kube/cluster.ts'
import type { KubeconfigChoice } from '../kube/pinned-context.ts'
import { hubLogin, type LoginSources } from '../models/hub/token.ts'
import type { Models } from '../models/models.ts'
import type { Energy } from '../power/energy.ts'
import type { HostAddress, HostCandidate } from '../publishing/host-address.ts'
import type { NodeLease } from '../publishing/lease.ts'
import type { Reconciler } from '../reconcile/reconciler.ts'
import { GettingError } from '../runtimes/getting.ts'
import type { InstalledRuntimes } from '../runtimes/installed.ts'
import type { RuntimeWork } from '../runtimes/runtime-work.ts'
import type { ReadableOutput } from '../servers/output.ts'
import type { PersonSettings } from '../settings/person-settings.ts'
import { keyOf, refKey } from '../util/object-key.ts'
import { LinkError, withdrawn } from '../../contract/client.ts'
import type { ServiceRef } from '../../contract/commands.ts'
import type { DoctorReport } from '../../contract/doctor.ts'
import type { Answer, Query, RuntimeView } from '../../contract/queries.ts'

/** The rooms that answers are looked up in. */
export interface Sources {
  readonly history: History
  readonly settings: PersonSettings
  /** Undefined while there is no usable kubeconfig. */
  readonly session: () =>
    { readonly cluster: Cluster; readonly reconciler: Reconciler; readonly lease: Pick<NodeLease, 'ref'> } | undefined
  readonly nodeId: string
  readonly clusterMessage: () => string
  readonly kubeconfig: KubeconfigChoice
  readonly interfaces: () => readonly HostCandidate[]
  readonly hostAddress: () => HostAddress
  readonly models: Models
  readonly sizing: SizingSources & Pick<EvictionPreviewSources, 'memory'>
  readonly fit: Omit<FitSources, 'sizing' | 'models'>
  readonly installed: Pick<InstalledRuntimes, 'look'>
  readonly runtimeWork: Pick<RuntimeWork, 'deeds' | 'plan'>
  readonly powerRule: PowerRuleSources
  readonly hubLogin: Omit<LoginSources, 'hubTokenFile'>
  /** This machine and its agent as they are now, without what the queries above answer. */
  readonly patient: () => Omit<Patient, 'runtimes' | 'powerRule' | 'hostAddress'>
  readonly leftPods: LeftPods
  readonly energy: Pick<Energy, 'view'>
  readonly server: ServerDetailsSources
  /** What the servers of an InferenceService write and wrote. */
  readonly output: (service: ServiceRef) => ReadableOutput
}

/** Throws LinkError, with code `refused`, where there is no answer, or nobody waits for it. */
export async function answer(sources: Sources, query: Query, signal = new AbortController().signal): Promise<Answer> {
  try {
    return await answerTo(sources, query, signal)
  } catch (error) {
    throw signal.aborted ? withdrawn(error) : error
  }
}

async function answerTo(sources: Sources, query: Query, signal: AbortSignal): Promise<Answer> {
  const { history, settings } = sources
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
      return contexts(sources.kubeconfig, sources.session()?.cluster.api.context)
    case 'hostAddresses':
      return hostAddresses(sources.interfaces(), {
        address: sources.hostAddress(),
        automatic: settings.hostAddress.by === 'automatic',
      })
    case 'events': {
      const { cluster, reconciler } = sessionOf(sources)
      const isShown = (namespace: string, name: string) => reconciler.report(keyOf(namespace, name)) !== undefined
      return events({ api: cluster.api, namespace: cluster.namespace, isShown }, query, signal)
    }
    case 'conditions':
      return conditions(sessionOf(sources).cluster, query.service)
    case 'deletion': {
      const { cluster, reconciler } = sessionOf(sources)
      return deletion(cluster.api, query.service, reconciler.report(refKey(query.service)) !== undefined)
    }
    case 'runtimes':
      return { runtimes: await runtimesWithDeeds(sources) }
    case 'runtimePlan':
      return planShown(sources, query)
    case 'doctor':
      return report(sources, signal)
    case 'diagnostics':
      return diagnostics({
        patient: sources.patient(),
        ...{ settings, history, cluster: sources.session()?.cluster },
        report: () => report(sources, signal),
        hubLogin: { ...sources.hubLogin, hubTokenFile: settings.current.hubTokenFile },
      })
    case 'unserved':
      return unserved(sessionOf(sources).reconciler.unserved())
    case 'fromCluster':
      return fromCluster(
        { cluster: sessionOf(sources).cluster, image: settings.current.probeImage, left: sources.leftPods },
        query.service,
        signal,
      )
    case 'fleet': {
      const { cluster, lease } = sessionOf(sources)
      return fleet({ api: cluster.api, namespace: lease.ref.namespace, nodeId: sources.nodeId }, signal)
    }
    case 'models':
      return sources.models.view()
    case 'hubLogin':
      return hubLogin({ ...sources.hubLogin, hubTokenFile: settings.current.hubTokenFile })
    case 'powerRule':
      return powerRule(sources.powerRule)
    case 'sizing':
      return sizing(sources.sizing)
    case 'fit':
      return fit({ sizing: sources.sizing, models: sources.models, ...sources.fit }, query, signal)
    case 'evictionPreview':
      return evictionPreview({
        memory: sources.sizing.memory,
        reports: sources.session()?.reconciler.reports() ?? [],
        settings: memorySettings(settings.with(query.settings)),
      })
    case 'energy':
      return sources.energy.view(query)
    case 'server':
      return serverDetails(sources.server, query.service)
    case 'log':
      return logPage(sources.output(query.service), query)
  }
}

function report(sources: Sources, signal: AbortSignal): Promise<DoctorReport> {
  const patient: Patient = {
    ...sources.patient(),
    runtimes: () => sources.installed.look({ again: true }),
    powerRule: () => powerRule(sources.powerRule),
    hostAddress: () => Promise.resolve(sources.hostAddress()),
  }
  return examine(patient, doctorChecks, { signal })
}

async function runtimesWithDeeds({ installed, runtimeWork }: Sources): Promise<RuntimeView[]> {
  const views = await installed.look({ again: true })
  return Promise.all(views.map(async (view) => ({ ...view, deeds: await runtimeWork.deeds(view.name) })))
}

async function planShown(
  { runtimeWork }: Sources,
  { runtime, deed, with: by }: Extract<Query, { name: 'runtimePlan' }>,
) {
  try {
    return await runtimeWork.plan(runtime, deed, by)
  } catch (error) {
    if (error instanceof GettingError) throw new LinkError('refused', error.message, { cause: error })
    throw error
  }
}

/** Throws LinkError. */
function sessionOf({ session, clusterMessage }: Sources) {
  const current = session()
  if (!current) throw new LinkError('refused', `There is no cluster to ask: ${clusterMessage()}`)
  return current
}
