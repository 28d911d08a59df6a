import { readFile, writeFile } from 'node:fs/promises'
import { strFromU8, unzipSync } from 'fflate'
import { describe, expect, test } from 'vitest'
import { doctorReport, type DoctorFinding } from '../../src/contract/doctor.ts'
import type { Answer } from '../../src/contract/queries.ts'
import { AgentProcess } from '../support/agent-process.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import type { RunningAgent } from '../support/running-agent.ts'

const api = useRealApiServer()

const findings = async ({ agent }: RunningAgent): Promise<Readonly<Record<string, DoctorFinding>>> => {
  const report = doctorReport.parse(await agent.query({ name: 'doctor' }))
  return Object.fromEntries(report.findings.map((finding) => [finding.id, finding]))
}

describe('the doctor of an agent', () => {
  test('finds a machine that serves in order; then the address that nobody listens at, and a pause', async () => {
    await using world = await AgentWorld.open(api().connection)
    const well = await world.startAgent({ settings: { hostIp: undefined } })
    await world.applyModel('tiny')
    await world.applyService('tiny')
    await well.untilReady('tiny')
    const found = await findings(well)
    expect(
      ['agent', 'api-server', 'rights', 'runtimes', 'host-address', 'listeners', 'heartbeat', 'agreement'].map((id) => [
        id,
        found[id]?.verdict,
      ]),
    ).toEqual(
      ['agent', 'api-server', 'rights', 'runtimes', 'host-address', 'listeners', 'heartbeat', 'agreement'].map((id) => [
        id,
        'pass',
      ]),
    )
    expect(found['listeners']?.says).toBe('The published address can be reached from this machine.')

    await well.command({ name: 'pauseNode' })
    expect((await findings(well))['agent']).toMatchObject({
      ...{
        verdict: 'warn',
        says: expect.stringMatching(/has run for \d+ (s|min), and a person has paused it/) as string,
      },
      action: { fix: { command: { name: 'resumeNode' } } },
    })
  })

  test('finds that nobody answers at an address which is not of this machine', async () => {
    await using world = await AgentWorld.open(api().connection)
    const agent = await world.startAgent()
    await world.applyModel('tiny')
    await world.applyService('tiny')
    await agent.untilReady('tiny')
    expect((await findings(agent))['listeners']).toMatchObject({
      verdict: 'fail',
      says: expect.stringMatching(/\/tiny at 192\.0\.2\.7:\d+ does not answer/) as string,
    })
  })
})

test('metal-agent doctor asks the agent that runs, mends what it may, and without an agent asks this machine itself', async () => {
  await using folder = await temporaryFolder()
  const kubeconfig = await readFile(await writeKubeconfig(`${folder.dir}/kubeconfig`, api().connection), 'utf8')
  await using agent = await AgentProcess.start({ kubeconfig, args: ['--namespace', api().namespace] })
  await agent.snapshotWhenUp()
  expect((await agent.run('pause')).code).toBe(0)
  const asked = await agent.run('doctor')
  expect(asked.stdout).toMatch(/^WARNING {2}agent +metal-agent .*a person has paused it/)
  expect(asked.stdout).toMatch(/\$ metal-agent doctor --fix agent\n/)
  expect(asked.stdout).toMatch(/\n\d+ in order, \d+ warnings?, \d+ failures?, \d+ not applicable; took \d+\.\d s\.\n$/)

  expect(await agent.run('doctor', '--fix', 'agent')).toMatchObject({
    code: 4,
    stderr: expect.stringContaining('--yes') as string,
  })
  expect((await agent.run('doctor', '--fix', 'agent', '--yes')).code).toBe(0)
  expect((await agent.snapshot()).host.paused).toBe(false)
  expect((await agent.run('doctor', '--fix', 'rights', '--yes')).code).toBe(5)
  expect(await agent.run('doctor', '--fix', 'nothing')).toMatchObject({
    ...{ code: 2, stderr: expect.stringContaining('it is one of agent, ports') as string },
  })

  const page = await agent.run('doctor', '--page', 'heartbeat')
  expect(page).toMatchObject({ code: 0, stdout: expect.stringMatching(/^## States\n/) as string })
  expect(await agent.run('doctor', '--page', 'nothing')).toMatchObject({
    ...{ code: 2, stderr: expect.stringContaining('it is one of agent, ports') as string },
  })

  await agent.stop()
  const alone = await agent.run('doctor', '--json', '--kubeconfig', agent.kubeconfigFile)
  expect(alone.code).toBe(1)
  const report = doctorReport.parse(JSON.parse(alone.stdout))
  expect(report.findings.find(({ id }) => id === 'agent')).toMatchObject({ verdict: 'fail' })
  expect(report.findings.find(({ id }) => id === 'api-server')).toMatchObject({ verdict: 'pass' })
})

test('doctor --report shows what it would send, asks, and writes a zip file without secrets', async () => {
  await using folder = await temporaryFolder()
  const { connection, namespace } = api()
  const kubeconfig = await readFile(await writeKubeconfig(`${folder.dir}/kubeconfig`, connection), 'utf8')
  await using agent = await AgentProcess.start({
    kubeconfig,
    args: ['--namespace', namespace],
    env: { MY_API_TOKEN: 'planted-in-the-environment' },
  })
  await agent.snapshotWhenUp()
  const file = `${folder.dir}/report.zip`
  const shown = await agent.run('doctor', '--report', file)
  expect([shown.code, shown.stderr]).toEqual([4, expect.stringContaining('--yes') as string])
  expect(shown.stdout).toMatch(/^FILE +SIZE\nabout\.json +\d+ B\ndoctor\.json /)
  expect(await agent.run('doctor', '--report', file, '--yes')).toMatchObject({ code: 0, stderr: '' })
  const files = Object.entries(unzipSync(await readFile(file))).map(
    ([name, bytes]) => [name, strFromU8(bytes)] as const,
  )
  expect(files.map(([name]) => name)).toEqual([
    'about.json',
    'doctor.json',
    'settings.json',
    'snapshot.json',
    'history.json',
    'objects.json',
  ])
  const whole = files.map(([, text]) => text).join('\n')
  expect(whole).toContain('"api-server"')
  for (const secret of [connection.token, 'planted-in-the-environment']) expect(whole).not.toContain(secret)
  // Neither is another file of that name written over.
  expect(await agent.run('doctor', '--report', file, '--yes')).toMatchObject({ code: 1 })
})

test('a report has no token that the agent logs in with, wherever it stands: of a plugin, of the Hub, of its metrics', async () => {
  await using sim = await KubeSim.start({ protocol: 'http' })
  await using folder = await temporaryFolder()
  // None of them looks like a token, or stands beside a name that says so.
  const planted = {
    plugin: sim.connection().token,
    hub: 'green-elephants-of-the-hub',
    metrics: 'blue-whales-of-the-metrics',
    environment: 'red-foxes-of-a-plugin',
  }
  const told = Object.values(planted).join(' and ')
  const metadata = { name: 'tiny', namespace: 'default', annotations: { note: `It is ${told}.` } }
  sim.create({
    apiVersion: 'inference.llmkube.dev/v1alpha1',
    kind: 'InferenceService',
    metadata,
    spec: { modelRef: 'tiny' },
  })
  const files = { hub: `${folder.dir}/hub`, plugin: `${folder.dir}/plugin` }
  await writeFile(files.hub, planted.hub)
  const credential = { apiVersion: 'client.authentication.k8s.io/v1', kind: 'ExecCredential' }
  const printed = JSON.stringify({ ...credential, status: { token: planted.plugin } })
  await writeFile(files.plugin, `#!/bin/sh\necho '${printed}'\n`, { mode: 0o755 })
  const variable = { name: 'MY_SECRET', value: planted.environment }
  const exec = { apiVersion: credential.apiVersion, command: files.plugin, env: [variable], interactiveMode: 'Never' }
  const cluster = { server: sim.url, 'insecure-skip-tls-verify': true }
  const kubeconfig = JSON.stringify({
    ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'a' },
    clusters: [{ name: 'a', cluster }],
    users: [{ name: 'a', user: { exec } }],
    contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
  })
  const tokens = ['--hub-token-file', files.hub]
  await using agent = await AgentProcess.start({ kubeconfig, args: ['--namespace', 'default', ...tokens] })
  await agent.shows(({ cluster: { state } }) => state === 'live', 'its cluster')
  await writeFile(`${agent.stateDir}/metrics-token`, planted.metrics, { mode: 0o600 })
  expect((await agent.run('doctor', '--report', `${folder.dir}/report.zip`, '--yes')).code).toBe(0)
  const report = unzipSync(await readFile(`${folder.dir}/report.zip`))
  const whole = Object.values(report)
    .map((bytes) => strFromU8(bytes))
    .join('\n')
  expect(whole).toContain('It is [redacted] and [redacted] and [redacted] and [redacted].')
  expect(Object.values(planted).filter((secret) => whole.includes(secret))).toEqual([])
})

test('metal-agent why tells for each InferenceService of the cluster why it is not served here, and fleet which Macs there are', async () => {
  await using world = await AgentWorld.open(api().connection)
  const agent = await world.startAgent({ allowlist: ['tiny', 'cuda', 'asleep', 'lost'] })
  await world.applyModel('tiny')
  await world.applyModel('cuda', { accelerator: 'cuda' })
  await world.applyService('tiny')
  await world.applyService('cuda')
  await world.applyService('asleep', { modelRef: 'tiny', spec: { replicas: 0 } })
  await world.applyService('lost', { modelRef: 'nowhere' })
  await world.applyService('others', { modelRef: 'tiny' })
  await agent.untilReady('tiny')
  const why = await eventually(async () => {
    const { services } = (await agent.agent.query({ name: 'unserved' })) as Answer<'unserved'>
    return services.length === 4 && services.some(({ name, message }) => name === 'lost' && message !== '') && services
  })
  expect(why.map(({ name, isForOthers, message }) => [name, isForOthers, message])).toEqual([
    ['asleep', false, 'Scaled to zero replicas.'],
    ['lost', false, expect.stringMatching(/^There is no Model "nowhere"/)],
    ['others', false, 'others is not in the allowlist of this agent.'],
    ['cuda', true, 'Model cuda asks for the accelerator cuda, not metal.'],
  ])
  const members = await eventually(async () => {
    const { members: found } = (await agent.agent.query({ name: 'fleet' })) as Answer<'fleet'>
    return found.length > 0 && found
  })
  expect(members).toMatchObject([
    { name: 'metalbar-mac', host: 'mac', isThisOne: true, version: 'v0-test', isPaused: false },
  ])
})

test('a Pod asks a service that is served, of the image that a person names', async () => {
  await using world = await AgentWorld.open(api().connection)
  const agent = await world.startAgent({ settings: { hostIp: undefined } })
  await world.applyModel('tiny')
  await world.applyService('tiny')
  await agent.untilReady('tiny')
  const service = { namespace: world.namespace, name: 'tiny' }
  const image = 'registry.lan:5000/busybox:1.37'
  const answer = agent.agent.query({ name: 'fromCluster', service, image }) as Promise<Answer<'fromCluster'>>
  const pods = { apiVersion: 'v1', kind: 'Pod' }
  const pod = await eventually(async () => (await world.admin.list(pods))[0])
  expect(JSON.stringify(pod)).toContain(`"image":"${image}"`)
  const message = 'service 0 fine\naddress 0 fine\n'
  const state = { terminated: { exitCode: 0, message } }
  const container = { name: 'probe', image, imageID: '', ready: false, restartCount: 0, state }
  const status = { phase: 'Succeeded', containerStatuses: [container] }
  await world.admin.patch({ ...pods, metadata: { name: pod.metadata.name } }, { status }, 'status')
  expect(await answer).toMatchObject({ isReached: true, says: expect.stringContaining('reached tiny.') as string })
  expect(await world.admin.list(pods)).toEqual([])
})
