import { once } from 'node:events'
import { mkdir, realpath, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { clusterChecks } from '../../../src/agent-core/doctor/cluster-checks.ts'
import { machineChecks } from '../../../src/agent-core/doctor/machine-checks.ts'
import { relayChecks } from '../../../src/agent-core/doctor/relay-checks.ts'
import { agentChecks } from '../../../src/agent-core/doctor/serving-checks.ts'
import type { PinnedContext } from '../../../src/agent-core/kube/pinned-context.ts'
import { parseEndpointSlice } from '../../../src/agent-core/kube/resources.ts'
import { annotations, claimText } from '../../../src/agent-core/publishing/objects.ts'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import type { Patient } from '../../../src/agent-core/doctor/doctor.ts'
import type { Platform } from '../../../src/agent-core/platform/platform.ts'
import type { PowerRuleState } from '../../../src/contract/power.ts'
import { sampleService, sampleSnapshot } from '../../support/sample-snapshot.ts'
import { foundBy, patientOf, type StatedPatient } from '../../support/patient.ts'
import { statedPlatform } from '../../support/stated-memory.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const one = async (id: string, stated: StatedPatient) => {
  const { verdict, says, action } = (await foundBy(machineChecks, patientOf(stated)))[id] ?? {}
  return { verdict, says, shell: action?.shell }
}
const on = (stated: Partial<Platform>): Platform => statedPlatform(hostPlatform(), stated)
const mac = (stated: Partial<Platform>): Platform => on({ name: 'darwin', ...stated })

test('Metal: a Mac without it fails, a Linux need not have it', async () => {
  const metal = (available: boolean) => () => Promise.resolve({ available, message: 'So it is.', isNotice: true })
  expect((await one('metal', { platform: mac({ metal: metal(true) }) })).verdict).toBe('pass')
  expect((await one('metal', { platform: mac({ metal: metal(false) }) })).verdict).toBe('fail')
  expect((await one('metal', { platform: on({ name: 'linux', metal: metal(false) }) })).verdict).toBe('notApplicable')
})

test('the certificate of the kubeconfig: a warning fourteen days before its end, and a failure from then on', async () => {
  const lasting = async (days: number) => {
    const [validFromDate, validToDate] = [0, days].map((one) => new Date(Date.now() + one * 24 * 3_600_000 - 60_000))
    const clientCertificate = () => Promise.resolve({ validFromDate, validToDate })
    const context = () => Promise.resolve({ clientCertificate } as unknown as PinnedContext)
    return (await foundBy(clusterChecks, patientOf({ context })))['client-certificate']?.verdict
  }
  expect([await lasting(15), await lasting(14), await lasting(0)]).toEqual(['pass', 'warn', 'fail'])
})

test('the model store: a folder that a restart empties fails, one that a cloud service syncs too, and Documents may be', async () => {
  const at = (modelStore: string) =>
    one('model-store', { platform: mac({}), env: { HOME: '/Users/ada' }, settings: { modelStore } })
  expect(await at('/Users/ada/Library/Application Support/Metalbar/models')).toMatchObject({ verdict: 'pass' })
  expect(await at('/private/tmp/llmkube-models')).toMatchObject({ verdict: 'fail' })
  expect(await at('/Users/ada/Library/Mobile Documents/models')).toMatchObject({ verdict: 'fail' })
  expect(await at('/Users/ada/Dropbox/models')).toMatchObject({ verdict: 'fail' })
  expect(await at('/Users/ada/Documents/models')).toMatchObject({ verdict: 'warn' })
})

test('a state folder that is a file fails, and one that is not there yet is judged by the one above', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.dir, 'state')
  await writeFile(file, '')
  expect((await one('state-folder', { settings: { stateDir: join(folder.dir, 'new') } })).verdict).toBe('pass')
  expect(await one('state-folder', { settings: { stateDir: join(file, 'below') } })).toMatchObject({
    ...{ verdict: 'fail', says: `${join(file, 'below')} cannot be created: ${file} is a file.` },
  })
})

test('the GPU limit: macOS decides, a sensible one passes, one that leaves too little for macOS fails', async () => {
  const gib = 1024 ** 3
  const limited = (limit: number | undefined) =>
    one('gpu-limit', {
      platform: mac({
        gpuMemoryLimit: () => Promise.resolve(limit),
        memory: () => Promise.resolve({ totalBytes: 64 * gib, availableBytes: gib }),
      }),
    })
  expect(await limited(undefined)).toMatchObject({ verdict: 'pass', says: 'macOS sets it.' })
  expect((await limited(56 * gib)).verdict).toBe('pass')
  expect((await limited(16 * gib)).verdict).toBe('warn')
  expect(await limited(63 * gib)).toMatchObject({ verdict: 'fail', shell: 'sudo sysctl iogpu.wired_limit_mb=0' })
})

test('the firewall: off passes, one that blocks a runtime that serves fails with the commands, and is a warning where the gateway listens or nothing is served', async () => {
  await using folder = await temporaryFolder()
  const program = join(folder.dir, 'llama-server')
  await mkdir(folder.dir, { recursive: true })
  await writeFile(program, '')
  const runtimes = () => Promise.resolve([{ name: 'llama-server', formats: ['gguf'], path: program }])
  const behind = (
    firewall: Awaited<ReturnType<Platform['firewall']>>,
    settings: StatedPatient['settings'] = {},
    agent?: Patient['agent'],
  ) => one('firewall', { platform: mac({ firewall: () => Promise.resolve(firewall) }), runtimes, settings, agent })
  const snapshot = sampleSnapshot({ services: [sampleService({ state: 'ready' })] })
  const serving = agentWith({ snapshot })
  expect((await behind(undefined)).verdict).toBe('notApplicable')
  expect((await behind({ state: 'off' })).verdict).toBe('pass')
  expect((await behind({ state: 'byProgram', allowed: new Set([program]) })).verdict).toBe('pass')
  expect(await behind({ state: 'byProgram', allowed: new Set() })).toMatchObject({
    verdict: 'warn',
    says: `The firewall does not let Pods reach ${program}.`,
    shell: expect.stringContaining(`--unblockapp ${program}`) as string,
  })
  expect(await behind({ state: 'blocksAll' })).toMatchObject({
    verdict: 'warn',
    says: expect.stringContaining('all incoming connections') as string,
  })
  expect((await behind({ state: 'blocksAll' }, {}, serving)).verdict).toBe('fail')
  expect((await behind({ state: 'byProgram', allowed: new Set() }, { listen: 'gateway' })).verdict).toBe('warn')
  // Relays come to the gateway, which is a process of this program.
  const relayed = { ...serving, slices: [sliceForRelays(snapshot.host.nodeId)] }
  const gateway = await realpath(process.execPath)
  const byProgram = (...allowed: string[]) => ({ state: 'byProgram' as const, allowed: new Set(allowed) })
  expect(await behind(byProgram(program), {}, relayed)).toMatchObject({
    ...{ verdict: 'fail', says: `The firewall does not let Pods reach ${gateway}.` },
    shell: expect.stringContaining(`--unblockapp ${gateway}`) as string,
  })
  expect((await behind(byProgram(gateway), {}, relayed)).verdict).toBe('pass')
  const direct = sliceOf(snapshot.host.nodeId)
  const both = { ...relayed, slices: [...relayed.slices, direct] }
  expect(await behind(byProgram(program), {}, both)).toMatchObject({
    says: `The firewall does not let Pods reach ${gateway}.`,
  })
  expect(await behind(byProgram(gateway), {}, both)).toMatchObject({
    says: `The firewall does not let Pods reach ${program}.`,
  })
})

const closedIngress: NonNullable<Patient['agent']>['ingress'] = {
  ...{ port: 9_443, state: { kind: 'closed', message: 'It is not needed.' }, notice: undefined },
  tokenProblem: () => undefined,
  answers: () => Promise.resolve({}),
}

const agentWith = (
  stated: Partial<NonNullable<Patient['agent']>>,
  snapshot = stated.snapshot ?? sampleSnapshot(),
): NonNullable<Patient['agent']> => ({
  ...{ snapshot, slices: [], serverNow: 0, leaseNotice: undefined, ingress: closedIngress },
  ...stated,
})

/** Its port on 127.0.0.1, until the test ends. */
async function listener(onConnection: (socket: Socket) => void = () => undefined): Promise<number> {
  const connections = new Set<Socket>()
  const server = createServer((socket) => {
    connections.add(socket.on('error', () => undefined))
    onConnection(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    for (const socket of connections) socket.destroy()
  })
  return (server.address() as AddressInfo).port
}

test('a gateway that the agent has not heard of yet, or that an earlier agent left, is not taken for another program', async () => {
  const port = await listener()
  const at = async (agent: Patient['agent'], isOwn: boolean) => {
    const isOwnGateway = (pid: number) => Promise.resolve(isOwn && pid === process.pid)
    const settings = { port: 0, clientPort: port, ingressPort: port, publish: 'relay' } as const
    const patient = patientOf({ settings, agent, isOwnGateway })
    const { ports, 'relay-ingress': ingress } = await foundBy([...agentChecks, ...relayChecks], patient)
    return [ports, ingress].map((found) => found?.says)
  }
  // It says nothing of a client proxy or an ingress, as at the moment in which its gateway has just been started.
  const agent = agentWith({})
  const taken = [
    `Another program listens at port ${port}: process ${process.pid}`,
    `Another program listens at port ${port}, where relays of the cluster connect: process ${process.pid}`,
  ].map((text): unknown => expect.stringContaining(text))
  const free = `Port ${port} is free until a service is published for relays.`
  expect([await at(agent, false), await at(undefined, false)]).toEqual([taken, taken])
  expect(await at(agent, true)).toEqual([`The agent listens at ${port}.`, free])
  expect(await at(undefined, true)).toEqual([
    `Only the gateway that an earlier agent left running listens at ${port}.`,
    free,
  ])
})

test('an ingress that shows no key says whether it is silent or what it answers', async () => {
  const snapshot = sampleSnapshot()
  const at = async (ingressPort: number) => {
    const ingress = { ...closedIngress, port: ingressPort, state: { kind: 'open' } as const }
    const agent = agentWith({ snapshot, ingress, slices: [sliceForRelays(snapshot.host.nodeId)] })
    const patient = patientOf({ settings: { ingressPort, publish: 'relay' }, agent })
    return (await foundBy(relayChecks, patient))['relay-ingress']
  }
  const silent = await listener()
  expect(await at(silent)).toMatchObject({
    verdict: 'fail',
    says: `The ingress at port ${silent} did not answer within 2 s.`,
  })
  const plain = await listener((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'))
  expect(await at(plain)).toMatchObject({
    verdict: 'fail',
    says: expect.stringMatching(
      `^The ingress at port ${plain} presents no certificate \\(.*(SSL|wrong version number)`,
    ) as string,
  })
})

const sliceForRelays = (node: string) => sliceOf(node, { [annotations.ingressPin]: 'x' })

const sliceOf = (node: string, said: Readonly<Record<string, string>> = {}) =>
  parseEndpointSlice({
    metadata: {
      ...{ namespace: 'default', name: 'tiny', uid: '1', resourceVersion: '1' },
      annotations: { [annotations.claim]: claimText({ node, epoch: 1, heartbeat: '' }), ...said },
    },
    ...{ addressType: 'IPv4', endpoints: [], ports: [] },
  })

test('sleep and Low Power Mode of a machine that is to serve are warnings with the command that ends them', async () => {
  const supplied = (supply: Awaited<ReturnType<Platform['powerSupply']>>) => {
    const platform = mac({ powerSupply: () => Promise.resolve(supply) })
    return Promise.all([one('sleep', { platform }), one('low-power-mode', { platform })])
  }
  expect((await supplied(undefined)).map(({ verdict }) => verdict)).toEqual(['notApplicable', 'notApplicable'])
  const calm = { source: 'mains', lowPowerMode: false, sleepAfterMinutes: 0 } as const
  expect((await supplied(calm)).map(({ verdict }) => verdict)).toEqual(['pass', 'pass'])
  expect(await supplied({ source: 'mains', lowPowerMode: true, sleepAfterMinutes: 10 })).toMatchObject([
    { verdict: 'warn', says: expect.stringMatching(/after 10 min/) as string, shell: 'sudo pmset -c sleep 0' },
    { verdict: 'warn', shell: 'sudo pmset -a lowpowermode 0' },
  ])
})

test.each<[PowerRuleState, boolean, string]>([
  ['notHere', true, 'notApplicable'],
  ['installed', true, 'pass'],
  ['missing', true, 'warn'],
  ['missing', false, 'notApplicable'],
  ['different', true, 'warn'],
  ['unknown', false, 'warn'],
])('the rule of sudo that is %s, with figures of power asked for: %s, is a %s', async (state, asked, verdict) => {
  const rule = () => Promise.resolve({ state, file: '/etc/sudoers.d/metalbar', rule: '' })
  expect((await one('power-rule', { powerRule: rule, settings: { applePowerEnabled: asked } })).verdict).toBe(verdict)
})
