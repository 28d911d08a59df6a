import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { expect, inject, test } from 'vitest'
import { z } from 'zod'
import { AgentProcess } from '../support/agent-process.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { TestCluster } from '../support/control-plane/test-cluster.ts'
import { eventually } from '../support/eventually.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { missingPrograms, skipWhen } from '../support/skip.ts'

const controlPlane = inject('controlPlane')
skipWhen('missing' in controlPlane ? controlPlane.missing : missingPrograms('kubectl'))

const named = z.array(z.looseObject({ name: z.string() }))
const kubeconfigShape = z.looseObject({ clusters: named, users: named, contexts: named })

const read = async (file: string) => kubeconfigShape.parse(JSON.parse(await readFile(file, 'utf8')))

/** The user's kubeconfig, with the administrator's context beside as `admin`. */
async function withAdmin(ofUser: string, ofAdmin: string): Promise<string> {
  const [user, admin] = await Promise.all([read(ofUser), read(ofAdmin)])
  const asAdmin = (all: z.infer<typeof named>) => all.map((one) => ({ ...one, name: 'admin' }))
  return JSON.stringify({
    ...user,
    clusters: [...user.clusters, ...asAdmin(admin.clusters)],
    users: [...user.users, ...asAdmin(admin.users)],
    contexts: [...user.contexts, { name: 'admin', context: { cluster: 'admin', user: 'admin' } }],
  })
}

test('an agent that lacks rights says which, and serves once an administrator has run what metal-agent rights prints, with no file beside it', async () => {
  if ('missing' in controlPlane) return
  await using cluster = await TestCluster.open(controlPlane.connection)
  const { namespace } = cluster
  await using world = await AgentWorld.open(controlPlane.connection, { namespace })
  const rule = (apiGroup: string, ...resources: string[]) => ({ apiGroups: [apiGroup], resources, verbs: ['*'] })
  const { kubeconfig } = await cluster.restrictedKubeconfig([
    rule('inference.llmkube.dev', 'inferenceservices', 'inferenceservices/status', 'models'),
    rule('', 'services', 'endpoints', 'events'),
  ])
  await using agent = await AgentProcess.start({
    kubeconfig: await withAdmin(kubeconfig, cluster.kubeconfig),
    args: ['--llama-server', sampleServerPath, '--namespace', namespace],
  })
  await world.apply('tiny')
  const { message } = await agent.shows(({ cluster }) => cluster.state === 'denied' && cluster, 'that it may not')
  expect(message).toMatch(/^These credentials may not read endpointslices \(.*\); ask for the rights to get, list and/)
  expect(await world.publishedKinds('tiny')).toEqual([])
  const { stdout: status } = await agent.run('status')
  const { stdout: script } = await agent.run('rights', '--admin', 'admin')
  const { stdout: all } = await agent.run('rights', '--further', '--json')

  const home = path.join(agent.folder, 'home')
  await writeFile(path.join(home, 'rights.sh'), script)
  await execa('sh', ['-e', 'rights.sh'], {
    cwd: home,
    env: { PATH: process.env['PATH'] ?? '', HOME: home, KUBECONFIG: agent.kubeconfigFile },
    extendEnv: false,
  })
  await agent.service('tiny', 'ready')
  const { lease = { namespace, name: '' } } = (await agent.snapshot()).cluster
  const read = () => world.admin.get({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: lease })
  await eventually(read, { what: 'its Lease' })
  expect({
    told: status.includes('metal-agent rights'),
    roles: [...all.matchAll(/ rolebinding (\S+)| clusterrolebinding (\S+)/g)].map(([, ...names]) => names.join('')),
    state: (await agent.snapshot()).cluster.state,
    published: (await world.published('tiny'))?.ready,
  }).toEqual({
    told: true,
    roles: [
      'metalbar-agent',
      `${lease.name}-lease`,
      'metalbar-models',
      'metalbar-cluster',
      'metalbar-fleet',
      'metalbar-probe',
      'metalbar-relay',
    ],
    state: 'live',
    published: true,
  })
  expect((await agent.snapshot()).notices.filter((notice) => notice.includes('Lease'))).toEqual([])
  await agent.run('shutdown')
  await agent.exited
  expect(await read()).toBeUndefined()
})

test('without a context there is nobody to give rights to, which metal-agent rights says', async () => {
  await using agent = await AgentProcess.start()
  await agent.snapshotWhenUp()
  expect(await agent.run('rights')).toEqual({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(/^metal-agent: The agent has no context yet\. There is no kubeconfig at /) as unknown,
  })
})
