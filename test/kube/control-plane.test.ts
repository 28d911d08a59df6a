import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { request as plainRequest } from 'node:https'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { KubeConfig } from '@kubernetes/client-node'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { AdminClient } from '../support/control-plane/admin-client.ts'
import { ApiServer, TestCluster, useControlPlane } from '../support/control-plane/control-plane.ts'
import { eventually } from '../support/eventually.ts'

const cluster = useControlPlane()

const inference = 'inference.llmkube.dev/v1alpha1'
const service = (name: string) => ({
  apiVersion: inference,
  kind: 'InferenceService',
  metadata: { name },
  spec: { modelRef: 'tiny' },
})
const model = (name: string) => ({
  apiVersion: inference,
  kind: 'Model',
  metadata: { name },
  spec: { source: 'https://models.example/tiny.gguf', hardware: {} },
})

test('the API server fills in the defaults that LLMKube declares', async () => {
  const [created, createdModel] = [
    await cluster().admin.create(service('defaults')),
    await cluster().admin.create(model('defaults')),
  ]
  expect([created['spec'], createdModel['spec']]).toMatchObject([
    { modelRef: 'tiny', replicas: 1, runtime: 'llamacpp', suspend: false, priority: 'normal' },
    { source: 'https://models.example/tiny.gguf', format: 'gguf', hardware: { accelerator: 'cpu' } },
  ])
})

test('values outside what LLMKube allows are refused', async () => {
  const refused = { ...service('refused'), spec: { modelRef: 'tiny', replicas: 11 } }
  await expect(cluster().admin.create(refused)).rejects.toMatchObject({ status: 422, reason: 'Invalid' })
})

test('spec and status are written apart and the generation counts only the spec', async () => {
  const { admin } = cluster()
  const object = await admin.create(service('apart'))
  await admin.patchStatus(object, { phase: 'Ready' })
  const patched = await admin.patch(object, { spec: { replicas: 2 }, status: { phase: 'Failed' } })
  expect(patched).toMatchObject({ metadata: { generation: 2 }, spec: { replicas: 2 }, status: { phase: 'Ready' } })
})

test('each test file sees only what is in its own namespace', async () => {
  const { admin, connection } = cluster()
  await using other = await TestCluster.open(connection)
  await other.admin.create(service('elsewhere'))
  await admin.create(service('here'))
  expect((await admin.list(service(''))).map(({ metadata }) => metadata.name)).not.toContain('elsewhere')
})

test('a restricted user may do what its role says and is denied the rest by name', async () => {
  const { admin, namespace, restrictedKubeconfig } = bound()
  await admin.create(model('readable'))
  const access = await restrictedKubeconfig([
    { apiGroups: ['inference.llmkube.dev'], resources: ['models'], verbs: ['get', 'list'] },
  ])
  const user = new AdminClient(access.connection, namespace)
  expect((await user.get(model('readable')))?.metadata.name).toBe('readable')
  await expect(user.create(model('unwanted'))).rejects.toMatchObject({ status: 403, reason: 'Forbidden' })
  await expect(user.list(service(''))).rejects.toThrow(/cannot list resource "inferenceservices"/)
})

test('a revoked token is answered 401', async () => {
  const { namespace, restrictedKubeconfig } = bound()
  const access = await restrictedKubeconfig([{ apiGroups: [''], resources: ['services'], verbs: ['list'] }])
  const user = new AdminClient(access.connection, namespace)
  expect(await user.list({ apiVersion: 'v1', kind: 'Service' })).toEqual([])
  await access.revoke()
  const path = `/api/v1/namespaces/${namespace}/services`
  await eventually(async () => (await user.request({ method: 'GET', path })).status === 401)
})

test('the kubeconfig verifies the server by its own authority', async () => {
  const config = new KubeConfig()
  config.loadFromFile(cluster().kubeconfig)
  const trusted = config.getCurrentCluster()
  expect({
    skipsVerification: trusted?.skipTLSVerify ?? false,
    server: trusted?.server,
    user: config.currentContext,
  }).toEqual({
    skipsVerification: false,
    server: cluster().connection.server,
    user: 'test',
  })
  const withoutAuthority = new Promise((_, reject) => {
    plainRequest(new URL('/readyz', cluster().connection.server)).once('error', reject).end()
  })
  await expect(withoutAuthority).rejects.toThrow(/certificate/)
})

test('a private API server counts requests and keeps its data, address and tokens over an outage', async () => {
  await using server = await ApiServer.start()
  await using alone = await TestCluster.open(server.connection)
  const before = await alone.requestCounts()
  const created = await alone.admin.create(service('survivor'))
  const after = await alone.requestCounts()
  const name = 'POST inferenceservices'
  expect((after[name] ?? 0) - (before[name] ?? 0)).toBe(1)

  await server.kill()
  await expect(alone.admin.get(service('survivor'))).rejects.toThrow()
  await server.restart()
  expect((await alone.admin.get(service('survivor')))?.metadata.uid).toBe(created.metadata.uid)
})

test('a halted API server is silent with its connections open, and goes on where it was', async () => {
  await using server = await ApiServer.start({ crds: null })
  await using alone = await TestCluster.open(server.connection)
  server.pause()
  const answer = alone.admin.request({ method: 'GET', path: '/readyz' }).then(({ status }) => status)
  await expect(Promise.race([answer, delay(300, 'silence')])).resolves.toBe('silence')
  server.resume()
  await expect(answer).resolves.toBe(200)
})

test('a private API server ends with the process that started it, however that ends', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'metalbar-killed-'))
  const modulePath = join(import.meta.dirname, '../support/control-plane/api-server.ts')
  const program = `import { ApiServer } from ${JSON.stringify(modulePath)}
    const { connection } = await ApiServer.start({ crds: null })
    console.log(connection.server)
    setInterval(() => undefined, 1000)`
  const owner = spawn(process.execPath, ['--input-type=module-typescript', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, TMPDIR: folder },
  })
  const [line] = z.tuple([z.instanceof(Buffer)]).parse(await once(owner.stdout, 'data'))
  const { hostname, port } = new URL(line.toString().trim())
  await expect(accepts(hostname, Number(port))).resolves.toBe(true)
  owner.kill('SIGKILL')
  await eventually(async () => !(await accepts(hostname, Number(port))), { what: 'the end of the API server' })
  await rm(folder, { recursive: true, force: true, maxRetries: 5 })
})

test('the CRDs of the folder LLMKUBE_CRDS names are in use instead of ours', async ({ skip }) => {
  skip(process.env['LLMKUBE_CRDS'] === undefined, 'LLMKUBE_CRDS names no folder of CRDs')
  const apiVersion = 'apiextensions.k8s.io/v1'
  const name = 'models.inference.llmkube.dev'
  const crd = await cluster().admin.get({ apiVersion, kind: 'CustomResourceDefinition', metadata: { name } })
  expect(crd?.metadata.annotations).toHaveProperty(['controller-gen.kubebuilder.io/version'])
})

function accepts(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, host)
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}

function bound() {
  const { admin, namespace } = cluster()
  const restrictedKubeconfig: TestCluster['restrictedKubeconfig'] = (...args) => cluster().restrictedKubeconfig(...args)
  return { admin, namespace, restrictedKubeconfig }
}
