import { once } from 'node:events'
import { connect } from 'node:tls'
import { pinOf } from '../gateway/relay-identity.ts'
import type { EndpointSlice } from '../kube/resources.ts'
import { annotations, holderOf, ownerOf } from '../publishing/objects.ts'
import { messageOf } from '../util/message-of.ts'
import { keyOf } from '../util/object-key.ts'
import type { PortHolder } from '../platform/platform.ts'
import { holdersText } from '../util/port-holders.ts'
import { shellCommand } from '../../contract/shell.ts'
import { type Check, type Finding, type Patient, fail, notApplicable, pass, warn } from './doctor.ts'

/** The EndpointSlices of this machine that name the key of its ingress, by which relays find it; `isAlone`: it publishes no others. */
export function toldOfRelays({ agent }: Pick<Patient, 'agent'>): {
  readonly told: readonly EndpointSlice[]
  readonly isAlone: boolean
} {
  const { snapshot, slices = [] } = agent ?? {}
  const ours = slices.filter(
    ({ metadata }) => holderOf(metadata.annotations[annotations.claim]) === snapshot?.host.nodeId,
  )
  const told = ours.filter(({ metadata }) => metadata.annotations[annotations.ingressPin] !== undefined)
  return { told, isAlone: told.length > 0 && told.length === ours.length }
}

const serviceOf = (slice: EndpointSlice): string =>
  keyOf(slice.metadata.namespace, ownerOf(slice)?.name ?? slice.metadata.name)

const page = 'operations.md#the-relay-ingress'

const ingress: Check = {
  id: 'relay-ingress',
  asks: 'Is the relay ingress listening, with the key that the cluster knows?',
  page,
  answer: async ({ patient, signal }) => {
    const { settings, agent } = patient
    const { told } = toldOfRelays(patient)
    if (settings.publish === 'direct' && told.length === 0)
      return notApplicable('Services are published directly, so no relay connects here.')
    const { ingressPort: port } = settings
    const state = agent?.ingress.state
    if (state?.kind !== 'open') {
      const taken = await takenBy(patient, port)
      if (taken) return taken
    }
    if (agent?.ingress.notice !== undefined)
      return fail(agent.ingress.notice, {
        text: 'Fix the problem, then look again.',
        shell: 'metal-agent doctor',
      })
    if (told.length === 0) return pass(`Port ${port} is free until a service is published for relays.`)
    if (state?.kind !== 'open')
      return warn(state?.message ?? 'The agent cannot tell whether the relay ingress is listening.')
    const shown = await pinShown(port, signal)
    if ('problem' in shown)
      return fail(`The ingress at port ${port} ${shown.problem}.`, {
        text: 'Restart the agent: models keep running.',
        shell: 'metal-agent service restart',
      })
    const others = told.filter(({ metadata }) => metadata.annotations[annotations.ingressPin] !== shown.pin)
    if (others.length > 0)
      return fail(
        `Relays of ${others.map(serviceOf).join(', ')} know a different key from the one that the ingress at port ${port} presents, so they do not trust it.`,
        {
          text: 'Let the agent read everything in the cluster again, and write what differs.',
          fix: { label: 'Read again', command: { name: 'resync' } },
        },
      )
    return pass(`The relay ingress listens at port ${port} with the key that relays know.`)
  },
}

/** No process group has this number, so that every listener is named. */
const noGroup = -1

/**
 * Who listens at a port, and whether the gateway does. One that was just started listens before the agent hears of it, so that its process is
 * looked at, and not what the agent knows of its addresses.
 */
export async function holdersOf(
  { platform, isOwnGateway }: Pick<Patient, 'platform' | 'isOwnGateway'>,
  port: number,
): Promise<{ readonly others: readonly PortHolder[]; readonly isGateway: boolean }> {
  const { others: holders } = await platform.portListeners(port, noGroup)
  const own = await Promise.all(holders.map(async ({ pid }) => pid !== undefined && (await isOwnGateway(pid))))
  return { others: holders.filter((_, at) => own[at] === false), isGateway: own.includes(true) }
}

/** Undefined where no other program is known to listen there. */
async function takenBy(patient: Patient, port: number): Promise<Finding | undefined> {
  const { settings, agent } = patient
  const { others } = await holdersOf(patient, port)
  if (others.length === 0) return undefined
  const told = settings.publish === 'relay' || agent?.ingress.notice !== undefined ? fail : warn
  const holders = holdersText(others, 'a program of another user')
  return told(`Another program listens at port ${port}, where relays of the cluster connect: ${holders}.`, {
    text: 'End it, or choose another port with --ingress-port.',
  })
}

const connectLimitMs = 2_000

/** The pin of the ingress of this machine as a relay sees it; `problem` ends a sentence that begins with the ingress. */
async function pinShown(
  port: number,
  signal: AbortSignal,
): Promise<{ readonly pin: string } | { readonly problem: string }> {
  // Relays trust the key alone.
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false })
  const limit = AbortSignal.timeout(connectLimitMs)
  try {
    await once(socket, 'secureConnect', { signal: AbortSignal.any([signal, limit]) })
    const certificate = socket.getPeerX509Certificate()
    return certificate ? { pin: pinOf(certificate) } : { problem: 'presents no certificate' }
  } catch (error) {
    signal.throwIfAborted()
    if (limit.aborted) return { problem: `did not answer within ${connectLimitMs / 1_000} s` }
    return { problem: `presents no certificate (${messageOf(error)})` }
  } finally {
    socket.destroy()
  }
}

/** Answers with these statuses may come before a relay's token is checked, so they do not show that it was let in. */
const answeredWithoutToken: readonly string[] = ['400', '401', '408', '431', '499']

const asked = (count: number): string => `Relays asked ${count} ${count === 1 ? 'time' : 'times'}`

const relays: Check = {
  id: 'relays',
  asks: 'Have relays of the cluster connected, and did the ingress accept them?',
  page,
  answer: async (examination) => {
    const { patient } = examination
    const { agent } = patient
    const { told, isAlone } = toldOfRelays(patient)
    const [first] = told
    if (!agent || first === undefined) return notApplicable('Nothing is published for relays.')
    const { namespace } = first.metadata
    const problem = told.map(({ metadata }) => agent.ingress.tokenProblem(metadata.namespace)).find((one) => one)
    const answers = await agent.ingress.answers()
    const refused = answers?.['401'] ?? 0
    const admitted = Object.entries(answers ?? {})
      .filter(([status]) => !answeredWithoutToken.includes(status))
      .reduce((sum, [, count]) => sum + count, 0)
    // With --publish auto the ingress is also published where the CRDs are of 0.10 and the controller is of 0.9.
    if (!isAlone && admitted + refused === 0)
      return notApplicable("No relay has connected, and Pods also connect to this machine's own address.")
    const ofSecret = ['kubectl', '-n', namespace, 'get', 'secret', 'llmkube-metal-relay', '--show-labels']
    if (problem !== undefined)
      return fail(problem, {
        text: "Look at that Secret; LLMKube's controller makes it.",
        shell: shellCommand(ofSecret),
      })
    if (admitted > 0) return pass(`${asked(admitted)}.`)
    if (refused > 0)
      return warn(`${asked(refused)}, never with the token of the Secret llmkube-metal-relay.`, {
        text: 'Check whether the Secret that relays have is the one of their namespace.',
        shell: shellCommand(ofSecret),
      })
    const { name = '' } = ownerOf(first) ?? {}
    const selector = `inference.llmkube.dev/metal-relay=${name}`
    return warn(`No relay has connected to port ${agent.ingress.port} yet.`, {
      text: "Check whether LLMKube's controller runs a relay, and what keeps it from reaching this machine.",
      shell: shellCommand(['kubectl', '-n', namespace, 'get', 'deployments,pods', '-l', selector]),
    })
  },
}

export const relayChecks: readonly Check[] = [ingress, relays]
