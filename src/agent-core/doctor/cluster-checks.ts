import { z } from 'zod'
import { ApiError, isApiError, rootMessage } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import { explainAbsence, missingNamespace } from '../kube/list-watch.ts'
import { certificateCodes, dayOf, outdatedSentence } from '../kube/connection.ts'
import { KubeconfigError } from '../kube/kubeconfig.ts'
import { type Resource, resources } from '../kube/resources.ts'
import { localCluster, localClusterText } from '../publishing/local-cluster.ts'
import { errorCode, ownFailure } from '../util/error-code.ts'
import { formatSpan } from '../../contract/format.ts'
import { rightsOfAgent } from '../../contract/cluster.ts'
import type { DoctorAction } from '../../contract/doctor.ts'
import { type Check, type Examination, fail, type Finding, notApplicable, pass, warn } from './doctor.ts'

const kubeconfig: Check = {
  id: 'kubeconfig',
  asks: 'Does the kubeconfig say which cluster to use?',
  page: 'troubleshooting.md#cannot-connect-to-kubernetes',
  answer: async ({ context, patient }) => {
    try {
      const { name, server, stated } = await context()
      const local = localCluster(stated, patient.platform)
      return pass(`Context ${name} points to ${server}.${local ? ` ${localClusterText(local)}.` : ''}`)
    } catch (error) {
      if (!(error instanceof KubeconfigError)) throw error
      return fail(error.message, {
        text: 'Choose another context, or give a kubeconfig that has one.',
        shell: 'metal-agent context',
      })
    }
  },
}

/** Soon enough for a person to fetch another one. */
const warnDaysBefore = 14

const certificate: Check = {
  id: 'client-certificate',
  asks: 'Is the certificate by which the kubeconfig logs in valid for longer?',
  page: 'cluster.md#your-kubeconfig',
  answer: async (examination) => {
    const context = await examination.context().catch(() => undefined)
    if (!context) return notApplicable('The kubeconfig cannot be used.')
    const renew = { text: 'Fetch the kubeconfig of the cluster again, or let its tool renew the certificate.' }
    try {
      const found = await context.clientCertificate()
      if (!found) return notApplicable('The kubeconfig logs in without a certificate of its own.')
      const outdated = outdatedSentence(found)
      if (outdated !== undefined) return fail(outdated, renew)
      const says = `The client certificate of this context is valid until ${dayOf(found.validToDate)}.`
      const isSoon = found.validToDate.getTime() - Date.now() < warnDaysBefore * 24 * 3_600_000
      return isSoon ? warn(says, renew) : pass(says)
    } catch (error) {
      if (!(error instanceof KubeconfigError)) throw error
      return fail(error.message, renew)
    }
  },
}

const apiServer: Check = {
  id: 'api-server',
  asks: 'Does the API server of the cluster answer?',
  page: 'troubleshooting.md#cannot-connect-to-kubernetes',
  answer: async (examination) => {
    const { patient } = examination
    try {
      const { api, version, tookMs } = await examination.greeting()
      const what = version === undefined ? 'an API server' : `Kubernetes ${version}`
      return pass(`${api.context.server} is ${what} and answered in ${Math.round(tookMs)} ms.`)
    } catch (error) {
      if (error instanceof KubeconfigError) return notApplicable('The kubeconfig does not say where the API server is.')
      const { server, connection } = await examination.context()
      const denied = await patient.platform.whyUnreachable?.(error)
      if (denied !== undefined) return fail(denied, openLocalNetwork)
      const trouble = connection.troubleOf(error)
      if (trouble !== undefined) return fail(trouble, { text: 'Mend what this names, and ask again.' })
      return unreached(server, error, connection.proxy)
    }
  },
}

const openLocalNetwork: DoctorAction = {
  text: 'Open System Settings at Privacy & Security, Local Network, and switch Metalbar on.',
  shell: "open 'x-apple.systempreferences:com.apple.preference.security?Privacy_LocalNetwork'",
}

/** What keeps a request from the API server, told by the code of the system or of OpenSSL. Pure. */
export function unreached(server: string, error: unknown, proxy: string | undefined): Finding {
  const through = proxy === undefined ? '' : ` The way leads through the proxy ${proxy}.`
  const words = isApiError(error) ? error.detail : rootMessage(error)
  const host = URL.parse(server)?.hostname ?? server
  const failed = (cause: string, text: string) => fail(`${cause} (${words}).${through}`, { text })
  if (isApiError(error, 401)) {
    return failed(
      `${server} does not accept the credentials of this context`,
      'Log in again, or choose another context with metal-agent context use NAME.',
    )
  }
  if (error instanceof ApiError && error.code !== undefined) {
    return failed(`The program at ${server} does not answer as an API server`, 'Check the address in the kubeconfig.')
  }
  const own = ownFailure(error)
  if (own !== undefined)
    return failed(
      `This machine could not ask ${server}: ${own}`,
      'Close programs that are not needed, or start the agent again.',
    )
  const code = errorCode(error) ?? ''
  if (/^(?:ENOTFOUND|EAI_AGAIN|EAI_NONAME)$/.test(code)) {
    return failed(
      `The name ${host} is not known here`,
      'Check the name in the kubeconfig, the DNS of this machine, and whether a VPN must be on.',
    )
  }
  if (code === 'ECONNREFUSED') {
    return failed(
      `Nothing is listening at ${server}`,
      'Start the cluster; one in a virtual machine may have another port since its last start.',
    )
  }
  if (certificateCodes.test(code)) {
    return failed(
      `The certificate of ${server} is not one that the kubeconfig trusts`,
      'Fetch the kubeconfig of the cluster again: it was recreated, something else answers there, or a proxy intercepts the connection.',
    )
  }
  if (/^(?:EPROTO|ERR_SSL_(?:WRONG_VERSION|PACKET_LENGTH|HTTP_REQUEST))/.test(code)) {
    return failed(`The program at ${server} does not speak TLS`, 'Check the address and the port in the kubeconfig.')
  }
  if (/^ERR_(?:O?SSL)_/.test(code)) {
    return failed(
      `No secure connection to ${server} could be made`,
      'Check the client certificate and its key in the kubeconfig.',
    )
  }
  if (/^(?:EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENETDOWN)$/.test(code)) {
    return failed(`There is no route from this machine to ${host}`, 'Check its network and whether a VPN must be on.')
  }
  if (/^(?:ECONNRESET|EPIPE|UND_ERR_SOCKET)$/.test(code)) {
    return failed(
      `The connection to ${server} was closed before there was an answer`,
      'Check whether a proxy or a firewall is in between.',
    )
  }
  return failed(
    `${server} does not answer`,
    'Check that the machine of the cluster is on, and that no firewall drops the traffic of this machine.',
  )
}

/** An answer of the API server: does not apply where that is not reached, of which its own question tells. */
const inCluster =
  (ask: (api: KubeApi, examination: Examination) => Promise<Finding> | Finding): Check['answer'] =>
  async (examination) => {
    const reached = await examination.greeting().catch(() => undefined)
    return reached ? ask(reached.api, examination) : notApplicable('The API server cannot be reached.')
  }

const groupVersions = z.object({ versions: z.array(z.object({ version: z.string().max(100) })) })

const definitions: Check = {
  id: 'llmkube',
  asks: 'Is LLMKube installed in the cluster?',
  page: 'install.md',
  answer: inCluster(async (api, { signal }) => {
    const { group, version } = resources.inferenceServices
    try {
      const found = groupVersions.parse(await api.group(group, signal)).versions.map((one) => one.version)
      if (found.includes(version)) return pass(`The cluster has InferenceService and Model as ${group}/${version}.`)
      return fail(`The cluster has ${group} as ${found.join(', ')}, but this agent knows only ${version}.`, {
        text: 'Update Metalbar, or install an LLMKube that still serves that version.',
      })
    } catch (error) {
      if (!isApiError(error, 404)) throw error
      return fail(await explainAbsence(api, resources.inferenceServices, signal), {
        text: 'Install LLMKube in the cluster.',
        shell:
          'helm repo add llmkube https://defilantech.github.io/LLMKube; helm install llmkube llmkube/llmkube --namespace llmkube-system --create-namespace',
      })
    }
  }),
}

const namespaceThere: Check = {
  id: 'namespace',
  asks: 'Does the watched namespace exist?',
  page: 'settings.md',
  answer: (examination) => {
    const { namespace } = examination.patient.settings
    if (namespace === undefined) return pass('All namespaces are watched.')
    return inCluster(async (api, { signal }) => {
      const missing = await missingNamespace(api, namespace, signal)
      if (missing === undefined) return pass(`Namespace ${namespace} is watched.`)
      return fail(missing, {
        text: 'Create it, or watch another one.',
        shell: `kubectl create namespace ${namespace}`,
      })
    })(examination)
  },
}

const accessReviews: Resource = {
  ...{ group: 'authorization.k8s.io', version: 'v1' },
  ...{ plural: 'selfsubjectaccessreviews', kind: 'SelfSubjectAccessReview' },
}
const review = z.object({ status: z.object({ allowed: z.boolean() }) })

interface Wish {
  readonly group: string
  readonly resource: string
  readonly verb: string
  readonly namespace?: string | undefined
}

/** Asks the API server itself, which every user may. Throws ApiError. */
async function isAllowed(api: KubeApi, { resource: path, ...wish }: Wish, signal: AbortSignal): Promise<boolean> {
  const [resource, subresource] = path.split('/')
  const spec = { resourceAttributes: { ...wish, resource, ...(subresource !== undefined && { subresource }) } }
  return review.parse(await api.create(accessReviews, '', { spec }, { signal })).status.allowed
}

const askRights: DoctorAction = {
  text: 'Ask an administrator of the cluster to run the commands that this prints.',
  shell: 'metal-agent rights',
}

const rights: Check = {
  id: 'rights',
  asks: 'Does this login have the rights that the agent needs in the cluster?',
  page: 'cluster.md#rights',
  answer: inCluster(async (api, { patient, signal }) => {
    const { namespace } = patient.settings
    const lacking = async (role: 'needed' | 'further'): Promise<string[]> => {
      const wishes = rightsOfAgent[role].flatMap(({ group, resources: all, verbs }) =>
        all.flatMap((resource) => verbs.map((verb) => ({ group, resource, verb }))),
      )
      const answers = await Promise.all(
        wishes.map(async (wish) => ({
          ...wish,
          isAllowed: await isAllowed(api, { ...wish, namespace }, signal),
        })),
      )
      const missing = Map.groupBy(
        answers.filter((one) => !one.isAllowed),
        ({ resource }) => resource,
      )
      return [...missing].map(([resource, ofIt]) => `${ofIt.map(({ verb }) => verb).join(', ')} ${resource}`)
    }
    const [needed, further] = await Promise.all([lacking('needed'), lacking('further')])
    if (needed.length > 0) return fail(`This login lacks the right to ${needed.join('; ')}.`, askRights)
    if (further.length === 0) return pass('This login has every right that the agent uses.')
    return pass(
      `This login has every right that serving needs; of the optional ones it lacks the right to ${further.join('; ')}.`,
    )
  }),
}

const administrator: Check = {
  id: 'cluster-admin',
  asks: 'Is this login kept out of the rest of the cluster?',
  page: 'cluster.md#rights',
  answer: inCluster(async (api, { signal }) => {
    const everything = { group: '*', resource: '*', verb: '*' }
    if (!(await isAllowed(api, everything, signal))) return pass('This login cannot do everything in the cluster.')
    return warn('This login can do everything in the cluster, and so can anyone who takes over this machine.', {
      text: 'Give the agent a login of its own, with the rights that this prints.',
      shell: 'metal-agent rights --further',
    })
  }),
}

/** Heartbeats are compared with the API server's clock: an agent that is 180 s behind counts as gone. */
const [warnSkewMs, failSkewMs] = [10_000, 120_000]

const clock: Check = {
  id: 'clock',
  asks: 'Do the clocks of this machine and of the API server agree?',
  page: 'operations.md#states',
  answer: inCluster((api) => {
    const ahead = Date.now() - api.serverNow()
    const skew = Math.abs(ahead)
    if (skew < warnSkewMs)
      return pass(`The clocks of this machine and of the API server differ by less than ${warnSkewMs / 1_000} s.`)
    const says = `The clock of this machine is ${formatSpan(skew)} ${ahead > 0 ? 'ahead' : 'behind'}.`
    const action = { text: 'Let macOS set the time: System Settings, General, Date & Time.' }
    return skew < failSkewMs ? warn(says, action) : fail(says, action)
  }),
}

export const clusterChecks: readonly Check[] = [
  ...[kubeconfig, certificate, apiServer, definitions, namespaceThere],
  ...[rights, administrator, clock],
]
