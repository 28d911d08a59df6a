import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, copyFile, mkdir, mkdtemp, rm, statfs, writeFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { get } from 'node:https'
import { createServer, type AddressInfo } from 'node:net'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { annotations } from '../../src/agent-core/publishing/objects.ts'
import { rightsOfAgent } from '../../src/contract/cluster.ts'
import { doctorReport, type DoctorFinding, type Verdict } from '../../src/contract/doctor.ts'
import { AgentProcess } from '../support/agent-process.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import type { ClusterConnection } from '../support/control-plane/admin-client.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import type { Rule } from '../support/kube-sim/access.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { createNetworkNamespace } from '../support/network-namespace.ts'
import { identityFolder } from '../../src/agent-core/gateway/relay-identity.ts'
import { RelayStandIn } from '../support/relay-stand-in.ts'
import type { RunningAgent } from '../support/running-agent.ts'
import { runVerb } from '../support/run-verb.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { missingNetworkNamespaces } from '../support/skip.ts'

type Found = Readonly<Record<string, DoctorFinding>>

const byId = (report: unknown): Found =>
  Object.fromEntries(doctorReport.parse(report).findings.map((finding) => [finding.id, finding]))

const grave: Readonly<Record<Verdict, number>> = { notApplicable: 0, pass: 0, warn: 1, fail: 2 }

/** Of a report, what is worse than in another one. */
const worse = (found: Found, before: Found): string[] =>
  Object.values(found).flatMap(({ id, verdict }) => (grave[verdict] > grave[before[id]?.verdict ?? 'pass'] ? [id] : []))

/** What the doctor says of a fault, by the question that names it. */
interface Told {
  readonly id: string
  readonly verdict: 'warn' | 'fail'
  readonly says: RegExp
  /** What the fault brings with it. */
  readonly with?: readonly string[]
}

function expectTold(found: Found, before: Found, { id, verdict, says, with: others = [] }: Told): void {
  expect([worse(found, before), found[id]?.verdict, found[id]?.says]).toEqual([
    [id, ...others].toSorted((a, b) => orderOf(found, a) - orderOf(found, b)),
    verdict,
    expect.stringMatching(says),
  ])
}

const orderOf = (found: Found, id: string): number => Object.keys(found).indexOf(id)

const asRules = (rules: (typeof rightsOfAgent)['needed']): Rule[] =>
  rules.map(({ group, resources, verbs }) => ({ apiGroups: [group], resources, verbs }))

describe('a machine on which no agent runs, as metal-agent doctor finds it', () => {
  const real = useRealApiServer()
  let folder = ''
  let login: ClusterConnection
  let port = 0
  let before: Found = {}

  /** The same as for every fault but for what is given: the last one of a flag counts. */
  async function look(...flags: string[]): Promise<Found> {
    const ours = ['--namespace', real().namespace, '--port', String(port), '--client-port', '0', '--ollama-port', '0']
    const files = ['--model-store', join(folder, 'models'), '--llama-server-bin', join(folder, 'llama-server')]
    const args = [...ours, ...files, '--omlx-port', '0', ...flags]
    const env = { PATH: '/usr/bin:/bin', HOME: folder, KUBECONFIG: join(folder, 'kubeconfig') }
    const words = ['doctor', '--json', '--state-dir', join(folder, 'state'), '--', ...args]
    return byId(JSON.parse((await runVerb(words, folder, { env })).stdout))
  }

  beforeAll(async () => {
    // Not among temporary files, where a model store would be wrong.
    const ofUser = join(homedir(), '.cache', 'metalbar')
    await mkdir(ofUser, { recursive: true })
    folder = await mkdtemp(join(ofUser, 'doctor-'))
    await copyFile(sampleServerPath, join(folder, 'llama-server'))
    await copyFile(join(sampleServerPath, '../sample-answers.cjs'), join(folder, 'sample-answers.cjs'))
    port = await freePort()
    login = (await real().restricted(asRules([...rightsOfAgent.needed, ...rightsOfAgent.further]))).connection
    await writeKubeconfig(join(folder, 'kubeconfig'), login)
    before = await look()
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  test('is in order, but for the agent that is missing', () => {
    expect(Object.values(before).filter(({ verdict }) => verdict === 'fail')).toMatchObject([{ id: 'agent' }])
    const asked = ['kubeconfig', 'api-server', 'llmkube', 'namespace', 'rights', 'cluster-admin', 'clock', 'runtimes']
    expect(asked.map((id) => before[id]?.verdict)).toEqual(asked.map(() => 'pass'))
  })

  const kubeconfigOf = async (connection: ClusterConnection) => [
    '--kubeconfig',
    await writeKubeconfig(join(folder, 'another-kubeconfig'), connection),
  ]
  const simulated = async (options: Parameters<typeof KubeSim.start>[0]) => {
    const sim = await KubeSim.start({ namespaces: [real().namespace], ...options })
    onTestFinished(() => sim[Symbol.asyncDispose]())
    return sim
  }
  /** An empty one, of which so much is taken. */
  const volume = async (skip: (why: string) => void, options: string) => {
    const place = join(folder, 'volume')
    await mkdir(place, { recursive: true })
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', place]).status === 0
    if (!mounted) skip('needs the right to mount a tmpfs')
    onTestFinished(() => void spawnSync('umount', [place]))
    return place
  }

  interface Fault extends Told {
    /** Makes it, and answers the flags by which the doctor meets it. */
    readonly plant: (skip: (why: string) => void) => Promise<readonly string[]> | readonly string[]
  }

  const faults: Readonly<Record<string, Fault>> = {
    'a kubeconfig that is not there': {
      plant: () => ['--kubeconfig', join(folder, 'nowhere')],
      ...{ id: 'kubeconfig', verdict: 'fail', says: /^There is no kubeconfig at \S+\/nowhere; copy one/ },
    },
    'a kubeconfig that cannot be read': {
      plant: () => ['--kubeconfig', folder],
      ...{ id: 'kubeconfig', verdict: 'fail', says: /^The kubeconfig \S+ cannot be read: \S+ is not a regular file/ },
    },
    'a program that logs in and is not installed': {
      plant: async () => {
        const exec = {
          apiVersion: 'client.authentication.k8s.io/v1',
          command: 'aws-that-is-not-here',
          interactiveMode: 'Never',
        }
        const user = { exec }
        const cluster = { server: login.server, 'certificate-authority-data': btoa(login.ca) }
        const context = { cluster: 'a', user: 'a' }
        const file = join(folder, 'with-plugin')
        const lists = { clusters: [{ name: 'a', cluster }], users: [{ name: 'a', user }] }
        const contexts = [{ name: 'a', context }]
        await writeFile(file, JSON.stringify({ apiVersion: 'v1', kind: 'Config', ...lists, contexts }))
        return ['--kubeconfig', file, '--context', 'a']
      },
      ...{
        id: 'api-server',
        verdict: 'fail',
        says: /^The kubeconfig logs in with aws-that-is-not-here, which is not instal/,
      },
    },
    'an API server that is not there': {
      plant: async () => kubeconfigOf({ ...login, server: `https://127.0.0.1:${await freePort()}` }),
      ...{ id: 'api-server', verdict: 'fail', says: /^Nothing is listening at https:\/\/127\.0\.0\.1:\d+ \(/ },
    },
    'an API server whose name nobody knows': {
      plant: () => kubeconfigOf({ ...login, server: 'https://metalbar.invalid:6443' }),
      ...{ id: 'api-server', verdict: 'fail', says: /^The name metalbar\.invalid is not known here \(/ },
    },
    'a certificate of another authority': {
      plant: async () => {
        const sim = await simulated({ protocol: 'https' })
        return kubeconfigOf({ ...sim.connection(), ca: login.ca })
      },
      ...{ id: 'api-server', verdict: 'fail', says: /^The certificate of https:\/\/127\.0\.0\.1:\d+ is not one/ },
    },
    'a token that has been withdrawn': {
      plant: () => kubeconfigOf({ ...login, token: 'wrong' }),
      ...{ id: 'api-server', verdict: 'fail', says: /^https:\/\/\S+ does not accept the credentials of this context/ },
    },
    'a cluster without LLMKube': {
      plant: async () => kubeconfigOf((await simulated({ protocol: 'http', crds: false })).connection()),
      ...{ id: 'llmkube', verdict: 'fail', says: /does not have LLMKube's API group/, with: ['cluster-admin'] },
    },
    'a namespace that is not there': {
      // Only a login that may read namespaces can tell.
      plant: async () => [...(await kubeconfigOf(real().connection)), '--namespace', 'nowhere-at-all'],
      ...{ id: 'namespace', verdict: 'fail', says: /^The namespace "nowhere-at-all" does not exist/ },
      with: ['cluster-admin'],
    },
    'a right that is missing': {
      plant: async () => {
        const rules = asRules(rightsOfAgent.needed).map((rule) =>
          rule.resources.includes('endpointslices') ? { ...rule, verbs: ['get', 'list', 'watch'] } : rule,
        )
        return kubeconfigOf((await real().restricted(rules)).connection)
      },
      ...{
        id: 'rights',
        verdict: 'fail',
        says: /^This login lacks the right to create, patch, delete endpointslices\.$/,
      },
    },
    'a login that may do everything': {
      plant: () => kubeconfigOf(real().connection),
      ...{ id: 'cluster-admin', verdict: 'warn', says: /^This login can do everything in the cluster/ },
    },
    'a clock that is three minutes behind': {
      plant: async () => {
        const sim = await simulated({ protocol: 'http' })
        sim.clockOffsetMs = 200_000
        return kubeconfigOf(sim.connection())
      },
      ...{
        id: 'clock',
        verdict: 'fail',
        says: /^The clock of this machine is 3 min behind\.$/,
        with: ['cluster-admin'],
      },
    },
    'a runtime that is not installed': {
      plant: () => ['--llama-server-bin', join(folder, 'gone')],
      ...{ id: 'runtimes', verdict: 'fail', says: /\/gone/ },
    },
    'a runtime that does not run': {
      plant: async () => {
        await writeFile(
          join(folder, 'broken'),
          '#!/bin/sh\necho "dyld: Library not loaded: libmtmd.dylib" >&2\nexit 1\n',
        )
        await chmod(join(folder, 'broken'), 0o755)
        return ['--llama-server-bin', join(folder, 'broken')]
      },
      ...{
        id: 'runtimes',
        verdict: 'fail',
        says: /\/broken does not report its version as llama-server does\. Install/,
      },
    },
    'a port that another program has': {
      plant: async () => {
        const other = createServer().listen(port, '127.0.0.1')
        await once(other, 'listening')
        onTestFinished(() => void other.close())
        return []
      },
      ...{
        id: 'ports',
        verdict: 'fail',
        says: new RegExp(`^Another program listens at port \\d+: process ${process.pid}`),
      },
    },
    'a port of the relay ingress that another program has': {
      plant: async () => {
        const other = createServer().listen(0, '0.0.0.0')
        await once(other, 'listening')
        onTestFinished(() => void other.close())
        const { port: taken } = other.address() as AddressInfo
        return ['--publish', 'relay', '--ingress-port', String(taken)]
      },
      ...{
        id: 'relay-ingress',
        verdict: 'fail',
        says: new RegExp(`^Another program listens at port \\d+, where relays .* connect: process ${process.pid}`),
      },
    },
    'a disk that is full': {
      plant: async (skip) => {
        const place = await volume(skip, 'size=1m')
        const { bavail, bsize } = await statfs(place)
        await writeFile(join(place, 'all'), Buffer.alloc(bavail * bsize))
        return ['--model-store', join(place, 'models')]
      },
      ...{ id: 'disk', verdict: 'fail', says: /^0 B are free where models are kept/ },
    },
    'a state folder on a disk that is read-only': {
      plant: async (skip) => ['--state-dir', join(await volume(skip, 'ro'), 'state')],
      ...{ id: 'state-folder', verdict: 'fail', says: /\/volume\/state cannot be written: .*read-only/i },
    },
    'a model store that a restart empties': {
      plant: () => ['--model-store', '/tmp/llmkube-models'],
      ...{ id: 'model-store', verdict: 'fail', says: /\/tmp\/llmkube-models is in a folder for temporary files/ },
    },
    'an address that no interface has': {
      plant: () => ['--host-ip', '192.0.2.77'],
      ...{ id: 'host-address', verdict: 'warn', says: /^192\.0\.2\.77 is on no interface of this machine/ },
    },
  }

  test.each(Object.entries(faults))('%s is named, and nothing that it does not bring with it', async (_, fault) => {
    const { plant, ...told } = fault
    const flags = await plant((why) => {
      throw new Error(why)
    })
    expectTold(await look(...flags), before, told)
  })

  test('is asked with what a person has set, and a flag counts more', async () => {
    const state = join(folder, 'state')
    await mkdir(state, { recursive: true })
    onTestFinished(() => rm(state, { recursive: true }))
    const settings = { hubEndpoint: 7 }
    await writeFile(join(state, 'settings.json'), JSON.stringify({ schema: 1, settings, hostAddress: '192.0.2.78' }))
    const found = await look()
    expect(worse(found, before)).toEqual(['host-address'])
    expect(found['host-address']?.says).toContain('192.0.2.78')
    const flagged = await look('--host-ip', '192.0.2.77')
    expect(flagged['host-address']?.says).toContain('192.0.2.77')
  })

  test('is asked about the cluster that was served last, and its files stay as they are even where they are broken', async () => {
    const state = join(folder, 'state')
    await mkdir(state, { recursive: true })
    onTestFinished(() => rm(state, { recursive: true }))
    const pin = { context: 'of-old', server: 'https://192.0.2.1:6443' }
    await writeFile(join(state, 'cluster.json'), JSON.stringify({ schema: 1, pin }))
    await writeFile(join(state, 'settings.json'), '{ broken')
    const found = await look()
    expect(found['kubeconfig']?.says).toMatch(/^The kubeconfig has no context "of-old"; it has \S+\. Bring it back/)
    const left = spawnSync('ls', [state], { encoding: 'utf8' }).stdout.trim().split('\n')
    expect(left).toEqual(['cluster.json', 'settings.json'])
  })
})

describe('an agent that serves, asked by its doctor', () => {
  const served = async () => {
    const parts = new AsyncDisposableStack()
    onTestFinished(() => parts.disposeAsync())
    const sim = parts.use(await KubeSim.start())
    const world = parts.use(await AgentWorld.open(sim.connection()))
    return { parts, sim, world }
  }
  const askedOf = async ({ agent }: RunningAgent) => byId(await agent.query({ name: 'doctor' }))

  test.skipIf(missingNetworkNamespaces() !== undefined)(
    'names an address that its interface has lost, and what is still published there',
    async () => {
      const { parts, world } = await served()
      const network = parts.use(await createNetworkNamespace())
      const address = await network.alsoHere()
      const { agent } = await world.serving('tiny', { hostIp: address })
      const before = await askedOf(agent)
      await network.loseHere(address)
      await eventually(() => agent.snapshot.notices.some((text) => text.includes(address)), { timeoutMs: 20_000 })
      expectTold(await askedOf(agent), before, {
        ...{ id: 'host-address', verdict: 'warn', with: ['listeners'] },
        says: new RegExp(`^${address.replaceAll('.', '\\.')} is on no interface of this machine`),
      })
    },
  )

  test('names the heartbeat that the cluster has not taken for minutes, and the slice that somebody has edited', async () => {
    const { sim, world } = await served()
    const { agent } = await world.serving('tiny', { settings: { hostIp: undefined } })
    const before = await askedOf(agent)
    const slice = { resource: 'endpointslices', namespace: world.namespace, name: 'tiny' }
    const annotate = (changes: Readonly<Record<string, string>>) =>
      sim.patch(slice, { metadata: { annotations: changes } })
    const refused = sim.faults.add({
      on: { verb: ['patch', 'create', 'update'], resource: 'endpointslices' },
      ...{ times: Infinity, fault: { kind: 'status', code: 503 } },
    })
    annotate({ [annotations.heartbeat]: new Date(Date.now() - 300_000).toISOString() })
    const stale = await eventually(async () => {
      const found = await askedOf(agent)
      return found['heartbeat']?.verdict === 'fail' && found['agreement']?.verdict === 'fail' && found
    })
    expectTold(stale, before, {
      ...{ id: 'heartbeat', verdict: 'fail', with: ['agreement'] },
      says: /^The oldest of 1 heartbeats is 5 min old\. The cluster counts this machine as gone\.$/,
    })

    annotate({ [annotations.claim]: 'by hand' })
    const edited = await eventually(async () => {
      const found = await askedOf(agent)
      return found['heartbeat']?.verdict === 'notApplicable' && found
    })
    expectTold(edited, before, {
      id: 'agreement',
      verdict: 'fail',
      says: /\/tiny is published by the agent at \S+, which has written no claim/,
    })
    refused.remove()
  })
})

describe('an agent that publishes for relays, asked by its doctor', () => {
  const token = 'a'.repeat(64)
  const secret = { resource: 'secrets', name: 'llmkube-metal-relay' }

  /** Where LLMKube's controller has made the token and runs no relay. */
  async function served(prepare: (stateDir: string) => Promise<void> = () => Promise.resolve()) {
    const parts = new AsyncDisposableStack()
    onTestFinished(() => parts.disposeAsync())
    const sim = parts.use(await KubeSim.start())
    const world = parts.use(await AgentWorld.open(sim.connection()))
    const { namespace } = world
    sim.create({
      ...{ apiVersion: 'v1', kind: 'Secret', data: { token: btoa(token) } },
      metadata: { namespace, name: secret.name, labels: { 'llmkube.ai/managed-by': 'llmkube-controller' } },
    })
    const port = await freePort()
    const folder = join(world.folder, 'agent')
    await mkdir(join(folder, 'state'), { recursive: true, mode: 0o700 })
    await prepare(join(folder, 'state'))
    const agent = parts.use(
      await AgentProcess.start({
        folder,
        kubeconfig: sim.kubeconfig(),
        args: [
          ...['--namespace', namespace, '--llama-server', sampleServerPath],
          ...['--publish', 'relay', '--ingress-port', String(port)],
        ],
      }),
    )
    await world.apply('tiny')
    const asked = async () => byId(JSON.parse((await agent.run('doctor', '--json')).stdout))
    const relay = async ({ shows = token, pin = '' } = {}) => {
      const tokenFile = join(world.folder, `token-${shows.slice(0, 1)}`)
      await writeFile(tokenFile, shows)
      const upstream = () => ({ host: '127.0.0.1', port })
      return parts.use(await RelayStandIn.start({ target: `${namespace}/tiny`, upstream, pin, tokenFile }))
    }
    const pin = async () => (await world.slice('tiny-agent'))?.metadata.annotations?.[annotations.ingressPin] ?? 'none'
    return { sim, world, agent, port, asked, relay, pin }
  }

  test('names a relay that has not come, one that shows another token, and a key that is not the one of the ingress', async () => {
    const { sim, world, agent, port, asked, relay, pin } = await served()
    await agent.service('tiny', 'ready')
    const alone = await asked()
    expect(alone['relays']).toMatchObject({
      verdict: 'warn',
      says: `No relay has connected to port ${port} yet.`,
      action: { shell: expect.stringContaining('-l inference.llmkube.dev/metal-relay=tiny') as string },
      page: 'operations.md#the-relay-ingress',
    })
    expect(['relay-ingress', 'listeners'].map((id) => alone[id]?.verdict)).toEqual(['pass', 'notApplicable'])
    // One who names no service is told so before the token counts.
    const stranger = get({ host: '127.0.0.1', port, agent: false, rejectUnauthorized: false })
    const [answer] = (await once(stranger, 'response')) as [IncomingMessage]
    answer.resume()
    expect([answer.statusCode, (await asked())['relays']?.verdict]).toEqual([400, 'warn'])
    const wrong = await relay({ shows: 'b'.repeat(64), pin: await pin() })
    expect(await wrong.isReady()).toBe(false)
    expect((await asked())['relays']).toMatchObject({
      verdict: 'warn',
      says: 'Relays asked 1 time, never with the token of the Secret llmkube-metal-relay.',
      action: { shell: expect.stringContaining('get secret llmkube-metal-relay') as string },
    })
    const right = await relay({ pin: await pin() })
    await eventually(() => right.isReady())
    const before = await asked()
    expect(before['relays']).toMatchObject({
      verdict: 'pass',
      says: expect.stringMatching(/^Relays asked \d+ times?/) as string,
    })

    const refused = sim.faults.add({
      on: { verb: ['patch', 'create', 'update'], resource: 'endpointslices' },
      ...{ times: Infinity, fault: { kind: 'status', code: 503 } },
    })
    sim.patch(
      { resource: 'endpointslices', namespace: world.namespace, name: 'tiny-agent' },
      { metadata: { annotations: { [annotations.ingressPin]: Buffer.alloc(32).toString('base64') } } },
    )
    const other = await eventually(async () => {
      const found = await asked()
      return found['relay-ingress']?.verdict === 'fail' && found
    })
    expect(other['relay-ingress']).toMatchObject({
      says: `Relays of ${world.namespace}/tiny know a different key from the one that the ingress at port ${port} presents, so they do not trust it.`,
      action: { fix: { command: { name: 'resync' } } },
    })
    refused.remove()
  })

  test('names a Secret that is not the one of LLMKube’s controller', async () => {
    const { sim, world, agent, asked } = await served()
    await agent.service('tiny', 'ready')
    const before = await asked()
    sim.patch(
      { ...secret, namespace: world.namespace },
      { metadata: { labels: { 'llmkube.ai/managed-by': 'somebody' } } },
    )
    const found = await eventually(
      async () => {
        const now = await asked()
        return now['relays']?.verdict === 'fail' && now
      },
      { timeoutMs: 20_000 },
    )
    expectTold(found, before, { id: 'relays', verdict: 'fail', says: /llmkube-metal-relay/ })
  })

  test('names an identity that cannot be used', async () => {
    const { asked } = await served(async (stateDir) => {
      await mkdir(identityFolder(stateDir), { mode: 0o700 })
      await writeFile(join(identityFolder(stateDir), 'ingress-cert.pem'), 'half of it')
    })
    const found = await eventually(async () => {
      const now = await asked()
      return now['relay-ingress']?.verdict === 'fail' && now
    })
    expect(found['relay-ingress']).toMatchObject({
      says: expect.stringMatching(
        /^No relay of the cluster reaches this machine\. .*ingress-key\.pem is missing/,
      ) as string,
      page: 'operations.md#the-relay-ingress',
    })
  })
})
