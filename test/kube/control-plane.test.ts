import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { z } from 'zod'
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
