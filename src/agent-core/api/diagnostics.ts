import { metricsTokenIn } from '../observability/metrics-listener.ts'
import { arch, homedir, release } from 'node:os'
import { crashReports, diagnosticFiles, endOfFile, type DiagnosticParts } from '../doctor/diagnostics.ts'
import type { Patient } from '../doctor/doctor.ts'
import type { History } from '../history/history.ts'
import type { Cluster } from '../kube/cluster.ts'
import { hubToken, type LoginSources } from '../models/hub/token.ts'
import type { PersonSettings } from '../settings/person-settings.ts'
import { readBounded } from '../util/files.ts'
import { isSecretName } from '../util/redact.ts'
import type { Answer } from '../../contract/queries.ts'
import type { DoctorReport } from '../../contract/doctor.ts'

export interface DiagnosticsSources {
  readonly patient: Pick<Patient, 'agent' | 'env' | 'context'>
  readonly settings: PersonSettings
  readonly history: History
  readonly cluster: Cluster | undefined
  readonly report: () => Promise<DoctorReport>
  readonly hubLogin: LoginSources
}

/** A cluster has thousands of a kind. */
/** The newest of the history. */
const sentEntries = 200
const maxObjects = 100
const maxServerLogs = 12
/** Many times a token. */
const maxTokenBytes = 64 * 1024

/** All that helps to see from afar what is wrong here, without secrets. */
export async function diagnostics(sources: DiagnosticsSources): Promise<Answer<'diagnostics'>> {
  const { patient, settings, history, cluster, report } = sources
  const snapshot = patient.agent?.snapshot
  const { logFile } = settings.current
  const agentLog = logFile === undefined ? undefined : await endOfFile(logFile)
  const home = patient.env['HOME'] ?? homedir()
  const parts: DiagnosticParts = {
    'about.json': {
      version: snapshot?.version,
      node: process.version,
      system: `${process.platform} ${release()} ${arch()}`,
      at: new Date().toISOString(),
    },
    'doctor.json': await report(),
    'settings.json': { settings: settings.views(), start: settings.startViews() },
    'snapshot.json': snapshot,
    'history.json': history.page({ limit: sentEntries }).entries,
    'objects.json': cluster && objectsOf(cluster),
    ...(agentLog !== undefined && { 'agent.log': agentLog }),
    ...(await serverLogs(snapshot?.services ?? [])),
    ...(await crashReports(home)),
  }
  const values = await secretsOf({ ...patient, settings: settings.current }, sources.hubLogin)
  return { files: diagnosticFiles(parts, { values, home }) }
}

function objectsOf({ inferenceServices, models, services, slices }: Cluster) {
  const some = <T>(objects: Iterable<T>) => [...objects].slice(0, maxObjects)
  return {
    inferenceServices: some(inferenceServices.values()),
    models: some(models.values()),
    services: some(services.values()),
    endpointSlices: some(slices.values()),
  }
}

async function serverLogs(
  services: readonly { readonly namespace: string; readonly name: string; readonly logFile?: string | undefined }[],
): Promise<DiagnosticParts> {
  const logs = services.slice(0, maxServerLogs).map(async ({ namespace, name, logFile }) => {
    const text = logFile === undefined ? undefined : await endOfFile(logFile)
    return text === undefined ? [] : [[`servers/${namespace}/${name}.log`, text] as const]
  })
  return Object.fromEntries((await Promise.all(logs)).flat())
}

interface Secretive extends Pick<Patient, 'context' | 'env'> {
  readonly settings: Pick<Patient['settings'], 'metricsTokenFile' | 'stateDir'>
}

/** What this machine logs in with at its cluster and at the Hub, the token of its metrics, and what its environment calls a secret. */
export async function secretsOf(
  { context, env, settings: { metricsTokenFile, stateDir } }: Secretive,
  hubLogin: LoginSources,
): Promise<string[]> {
  // What cannot be read is in no report either.
  const unknown = () => undefined
  const [ofCluster, ofHub, ofMetrics] = await Promise.all([
    context().then(({ connection }) => connection.secrets, unknown),
    hubToken(hubLogin).catch(unknown),
    readBounded(metricsTokenFile ?? metricsTokenIn(stateDir), maxTokenBytes).catch(unknown),
  ])
  const ofEnvironment = Object.entries(env).flatMap(([name, value]) => (isSecretName(name) ? [value] : []))
  const found = [...(ofCluster ?? []), ofHub?.value, ofMetrics?.toString().trim(), ...ofEnvironment]
  return found.filter((value) => value !== undefined)
}
