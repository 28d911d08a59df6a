import { once } from 'node:events'
import { connect } from 'node:net'
import { deadAfterMs } from '../publishing/claim.ts'
import { annotations, heartbeatOf, holderOf } from '../publishing/objects.ts'
import { errorCode } from '../util/error-code.ts'
import { holdersText } from '../util/port-holders.ts'
import { addressAndPort } from '../../contract/addresses.ts'
import { formatSpan } from '../../contract/format.ts'
import type { ServiceView } from '../../contract/service.ts'
import { holdersOf, toldOfRelays } from './relay-checks.ts'
import { type Check, type Examination, fail, notApplicable, pass, warn } from './doctor.ts'

const agent: Check = {
  id: 'agent',
  asks: 'Is an agent running here?',
  page: 'troubleshooting.md#the-agent-is-not-running',
  answer: ({ patient }) => {
    if (!patient.agent) {
      return fail('No agent is running here, so nothing is served.', {
        text: 'Open Metalbar, or install the agent as a service that starts at login.',
        shell: 'metal-agent install',
      })
    }
    const { host, version, startedAt, now } = patient.agent.snapshot
    const running = `metal-agent ${version} has run for ${formatSpan(Date.parse(now) - Date.parse(startedAt))}`
    if (!host.paused) return pass(`${running}.`)
    return warn(`${running}, and a person has paused it: no requests are sent here.`, {
      text: 'Resume this machine.',
      shell: 'metal-agent resume',
      fix: { label: 'Resume', command: { name: 'resumeNode' } },
    })
  },
}

const ports: Check = {
  id: 'ports',
  asks: 'Are the ports of the agent free of other programs?',
  page: 'settings.md',
  answer: async ({ patient }) => {
    const { settings, agent: running } = patient
    const wanted = [
      { port: settings.port, flag: '--port', isOpen: undefined },
      { port: settings.clientPort, flag: '--client-port', isOpen: running?.snapshot.host.clientProxy !== undefined },
    ].filter(({ port }) => port > 0)
    if (wanted.length === 0) return notApplicable('The agent listens at no port.')
    const looked = await Promise.all(wanted.map(async (one) => ({ ...one, ...(await holdersOf(patient, one.port)) })))
    const isOurs = ({ isOpen, others }: (typeof looked)[number]) =>
      running !== undefined && (isOpen ?? others.some(({ pid }) => pid === process.pid))
    const taken = looked.filter((one) => one.others.length > 0 && !isOurs(one))
    if (taken.length > 0) {
      const whose = taken.map(({ port, others }) => `${port}: ${holdersText(others, 'a program of another user')}`)
      return fail(`Another program listens at port ${whose.join(' and ')}.`, {
        text: `End it, or choose another port with ${taken.map(({ flag }) => flag).join(' and ')}.`,
      })
    }
    const portsOf = (some: typeof looked) => some.map(({ port }) => port).join(' and ')
    if (running) {
      const shut = looked.filter(({ others, isGateway }) => others.length === 0 && !isGateway)
      return shut.length > 0
        ? fail(`Nothing is listening at port ${portsOf(shut)}.`)
        : pass(`The agent listens at ${portsOf(looked)}.`)
    }
    const left = looked.filter(({ isGateway }) => isGateway)
    return left.length > 0
      ? pass(`Only the gateway that an earlier agent left running listens at ${portsOf(left)}.`)
      : pass(`Nothing is listening at ${portsOf(looked)}.`)
  },
}

const hostAddress: Check = {
  id: 'host-address',
  asks: 'Does this machine have an address that Pods can use?',
  page: 'reaching-models.md#the-published-address',
  answer: async ({ patient }) => {
    const found = await patient.hostAddress()
    const choose = { text: 'Choose another one.', shell: 'metal-agent host-ip' }
    if (found.kind === 'none') return fail(found.message, choose)
    if (found.warning === undefined) return pass(`Pods are sent to ${found.address}: ${found.why}.`)
    return warn(found.warning, {
      ...choose,
      ...(patient.agent && {
        fix: { label: 'Choose automatically', command: { name: 'setHostAddress', address: 'automatic' } },
      }),
    })
  },
}

const isPublished = ({ steps }: ServiceView): boolean => steps.published.status === 'done'
const nameOf = ({ namespace, name }: ServiceView): string => `${namespace}/${name}`

const unserved = ({ patient }: Examination) =>
  patient.agent ? notApplicable('Nothing is published now.') : notApplicable('No agent is running here.')

const forRelaysAlone = notApplicable('Only relays connect here: see the checks of the relay.')

const listeners: Check = {
  id: 'listeners',
  asks: 'Is something listening at each published address?',
  page: 'reaching-models.md#the-published-address',
  answer: async (examination) => {
    const published = (examination.patient.agent?.snapshot.services ?? []).filter(isPublished)
    if (published.length === 0) return unserved(examination)
    if (toldOfRelays(examination.patient).isAlone) return forRelaysAlone
    const looked = await Promise.all(
      published.map(async (service) => ({ service, problem: await problemAt(service, examination.signal) })),
    )
    const deaf = looked.flatMap(({ service, problem }) =>
      problem === undefined
        ? []
        : [`${nameOf(service)} at ${addressAndPort(service.address ?? '?', service.port ?? '?')} ${problem}`],
    )
    if (deaf.length === 0)
      return pass(
        published.length === 1
          ? 'The published address can be reached from this machine.'
          : `All ${published.length} published addresses can be reached from this machine.`,
      )
    return fail(`${deaf.join('; ')}.`, {
      text: 'Check the host address; a model that was started before it changed still listens at the old one.',
      shell: 'metal-agent host-ip',
    })
  },
}

/** A connection to an address of this machine takes no time, unless something drops it. */
const connectLimitMs = 2_000

/** Half a sentence; undefined where it is accepted. */
async function problemAt({ address, port }: ServiceView, signal: AbortSignal): Promise<string | undefined> {
  if (address === undefined || port === undefined) return 'has no address'
  const socket = connect({ host: address, port })
  try {
    await once(socket, 'connect', { signal: AbortSignal.any([signal, AbortSignal.timeout(connectLimitMs)]) })
    return undefined
  } catch (error) {
    const code = errorCode(error)
    return code === 'ECONNREFUSED' ? 'is refused' : `does not answer (${code ?? 'no connection'})`
  } finally {
    socket.destroy()
  }
}

/** An agent renews every 45 s: this is more than two that failed. */
const lateMs = 100_000

const heartbeat: Check = {
  id: 'heartbeat',
  asks: 'Does the cluster hear from this machine?',
  page: 'operations.md#states',
  answer: (examination) => {
    const { agent: running } = examination.patient
    if (!running) return unserved(examination)
    const { snapshot, slices, serverNow, leaseNotice } = running
    const { nodeId } = snapshot.host
    const ours = slices.filter(({ metadata }) => holderOf(metadata.annotations[annotations.claim]) === nodeId)
    const ages = ours.flatMap((slice) => {
      const at = Date.parse(heartbeatOf(slice))
      return Number.isNaN(at) ? [] : [serverNow - at]
    })
    if (ages.length === 0) return leaseNotice === undefined ? unserved(examination) : warn(leaseNotice)
    const oldest = Math.max(...ages)
    const says = `The oldest of ${ages.length} heartbeats is ${formatSpan(oldest)} old.`
    if (oldest > deadAfterMs)
      return fail(`${says} The cluster counts this machine as gone.`, {
        text: 'See the check of the API server.',
      })
    if (oldest > lateMs) return warn(says)
    return leaseNotice === undefined ? pass(says) : warn(leaseNotice)
  },
}

const agreement: Check = {
  id: 'agreement',
  asks: 'Do the process, the published address and the cluster agree?',
  page: 'operations.md#states',
  answer: (examination) => {
    const services = examination.patient.agent?.snapshot.services ?? []
    if (services.length === 0) return unserved(examination)
    const apart = services.filter(
      ({ reason, state, steps }) =>
        reason === 'ClusterDisagrees' ||
        reason === 'ClaimOverwritten' ||
        (state === 'ready' && (steps.published.status === 'failed' || steps.clusterAgrees.status === 'failed')),
    )
    if (apart.length === 0)
      return pass(
        `All three agree on ${services.length === 1 ? 'the one service' : `all ${services.length} services`} here.`,
      )
    return fail(apart.map((service) => `${nameOf(service)}: ${service.message}`).join(' '), {
      text: 'Let the agent read everything in the cluster again.',
      fix: { label: 'Read again', command: { name: 'resync' } },
    })
  },
}

export const agentChecks: readonly Check[] = [agent, ports]
export const servingChecks: readonly Check[] = [hostAddress, listeners, heartbeat, agreement]
