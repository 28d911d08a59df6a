// A stand-in for LLMKube's Go agent 0.9.19, as metal-agent-spec describes it: one child per service in its own process group, Service and
// EndpointSlice by full updates that keep foreign annotations, heartbeats, restarts of what does not answer, SIGTERM that ends its servers
// and leaves the slices ready. From 0.10 on, unless --legacy-direct-endpoints says otherwise, it is in relay mode: servers on this machine alone,
// behind an ingress by TLS with the identity in --state-dir. Its clocks run thirty times as fast. It notes every start in $GO_AGENT_STARTS.
import { Buffer } from 'node:buffer'
import { spawn } from 'node:child_process'
import { appendFileSync, readFileSync } from 'node:fs'
import { createServer, get, request as requestHttp } from 'node:http'
import { createServer as createTlsServer, request } from 'node:https'
import { createHash, X509Certificate } from 'node:crypto'
import { createServer as createTcpServer } from 'node:net'
import { join } from 'node:path'
import process from 'node:process'
import { setInterval } from 'node:timers'
import { setTimeout as delay } from 'node:timers/promises'

const args = process.argv.slice(2)
// As the Go agent is seen: without the name of this file.
process.title = [process.env.GO_AGENT_PROGRAM, ...args].join(' ')
if (args.includes('--version')) {
  process.stdout.write(`version: ${process.env.GO_AGENT_VERSION ?? 'v0.9.19'}\ncommit: sample\ndate: unknown\n`)
  process.exit(0)
}
const flag = (name, fallback) => {
  const inline = args.find((word) => word.startsWith(`--${name}=`))
  return inline?.slice(name.length + 3) ?? (args.includes(`--${name}`) ? args[args.indexOf(`--${name}`) + 1] : fallback)
}
const namespace = flag('namespace', 'default')
const version = process.env.GO_AGENT_VERSION ?? 'v0.9.19'
const kubeconfig = JSON.parse(readFileSync(flag('kubeconfig', process.env.KUBECONFIG), 'utf8'))
const { server, 'certificate-authority-data': ca } = kubeconfig.clusters[0].cluster
const { token } = kubeconfig.users[0].user

function ask(method, path, body) {
  return new Promise((resolve, reject) => {
    const trust = ca === undefined ? { rejectUnauthorized: false } : { ca: Buffer.from(ca, 'base64') }
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const asked = request(`${server}${path}`, { method, headers, ...trust }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part) => (text += part))
      response.on('end', () => resolve({ status: response.statusCode, body: JSON.parse(text || '{}') }))
    })
    asked.on('error', reject)
    asked.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

const group = `/apis/inference.llmkube.dev/v1alpha1/namespaces/${namespace}`
const slices = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`
const services = `/api/v1/namespaces/${namespace}/services`

async function upsert(path, name, make) {
  const { status, body } = await ask('GET', `${path}/${name}`)
  const next = make(status === 200 ? body : { metadata: { name, namespace } })
  if (status === 200) await ask('PUT', `${path}/${name}`, next)
  else await ask('POST', path, next)
}

const isRelay = /^v0\.[1-9]\d/.test(version) && !args.includes('--legacy-direct-endpoints')
const ingressPort = Number(flag('ingress-port', '9443'))
const identity = isRelay ? readIdentity() : undefined

function readIdentity() {
  const stateDir = flag('state-dir', join(process.env.HOME, 'Library/Application Support/llmkube/metal-agent'))
  const [cert, key] = ['cert', 'key'].map((name) => readFileSync(join(stateDir, 'ingress', `ingress-${name}.pem`)))
  const spki = new X509Certificate(cert).publicKey.export({ type: 'spki', format: 'der' })
  return { cert, key, pin: createHash('sha256').update(spki).digest('base64') }
}

let relayToken = { value: '', readAt: 0 }
async function tokenNow() {
  if (Date.now() - relayToken.readAt > 200) {
    const { body } = await ask('GET', `/api/v1/namespaces/${namespace}/secrets/llmkube-metal-relay`)
    relayToken = { value: Buffer.from(body.data?.token ?? '', 'base64').toString(), readAt: Date.now() }
  }
  return relayToken.value
}

async function answerRelay(incoming, response) {
  const refuse = (code) => response.writeHead(code, { 'content-type': 'application/json' }).end('{"error":"refused"}')
  const [targetNamespace, name, ...more] = String(incoming.headers['x-llmkube-target'] ?? '').split('/')
  if (!targetNamespace || !name || more.length > 0) return refuse(400)
  const known = await tokenNow()
  if (targetNamespace !== namespace || known === '' || incoming.headers['x-llmkube-relay-token'] !== known)
    return refuse(401)
  const one = managed.get(name)
  if (!one) return refuse(404)
  if (incoming.url === '/_llmkube/ready') return one.healthy ? response.end('{"status":"ready"}') : refuse(503)
  if (!one.healthy) return refuse(503)
  const { 'x-llmkube-target': _, 'x-llmkube-relay-token': __, ...headers } = incoming.headers
  const sent = requestHttp({ host: '127.0.0.1', port: one.port, path: incoming.url, method: incoming.method, headers })
  sent.on('error', () => (response.headersSent ? response.destroy() : refuse(502)))
  sent.on('response', (answer) => {
    response.writeHead(answer.statusCode, answer.headers)
    answer.pipe(response)
  })
  incoming.pipe(sent)
}

async function register({ name, port, healthy }) {
  const place = `${name.replaceAll('.', '-')}${isRelay ? '-agent' : ''}`
  const labels = { app: name, 'llmkube.ai/managed-by': 'metal-agent', 'llmkube.ai/inference-service': name }
  await upsert(services, place, (old) => ({
    ...old,
    metadata: {
      ...old.metadata,
      labels,
      annotations: { 'llmkube.ai/metal-accelerated': 'true', 'llmkube.ai/native-process': 'true' },
    },
    spec: {
      ...old.spec,
      type: 'ClusterIP',
      ports: isRelay
        ? [{ name: 'https', port: 8443, targetPort: ingressPort, protocol: 'TCP' }]
        : [{ name: 'http', port: 8080, targetPort: port, protocol: 'TCP' }],
    },
  }))
  await upsert(slices, place, (old) => ({
    ...old,
    metadata: {
      ...old.metadata,
      labels: { ...labels, 'kubernetes.io/service-name': place },
      annotations: {
        ...old.metadata.annotations,
        'llmkube.ai/agent-heartbeat': `${new Date().toISOString().slice(0, 19)}Z`,
        'llmkube.ai/agent-version': version,
        ...(identity && {
          'llmkube.ai/agent-ingress-spki': identity.pin,
          'llmkube.ai/agent-engine-port': String(port),
        }),
        ...JSON.parse(process.env.GO_AGENT_ANNOTATIONS ?? '{}'),
      },
    },
    addressType: 'IPv4',
    endpoints: [
      {
        addresses: [flag('host-ip', '192.0.2.10')],
        conditions: { ready: healthy },
        targetRef: { kind: 'Pod', name: `${name}-metal` },
      },
    ],
    ports: [isRelay ? { name: 'https', port: ingressPort, protocol: 'TCP' } : { name: 'http', port, protocol: 'TCP' }],
  }))
}

const freePort = () =>
  new Promise((resolve) => {
    const probe = createTcpServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address()
      probe.close(() => resolve(port))
    })
  })

const managed = new Map()

async function start(service, model) {
  const { name } = service.metadata
  const port = await freePort()
  const file = join(
    flag('model-store', '/tmp/llmkube-models'),
    model.metadata.name,
    model.spec.source.split('/').at(-1),
  )
  const argv = [
    '--model',
    file,
    '--host',
    isRelay ? '127.0.0.1' : '0.0.0.0',
    '--port',
    String(port),
    '--n-gpu-layers',
    '99',
    '--ctx-size',
    '2048',
    '--metrics',
  ]
  const child = spawn(flag('llama-server'), [...argv, ...(service.spec.extraArgs ?? [])], { stdio: 'ignore' })
  appendFileSync(process.env.GO_AGENT_STARTS, `${name} ${child.pid}\n`)
  managed.set(name, { name, port, child, healthy: false, service, model })
  while (!(await answers(port))) await delay(20)
  managed.get(name).healthy = true
  await register(managed.get(name))
}

const answers = (port) =>
  new Promise((resolve) => {
    get({ host: '127.0.0.1', port, path: '/health' }, (response) => {
      response.resume()
      resolve(response.statusCode === 200)
    }).on('error', () => resolve(false))
  })

async function poll() {
  const { body } = await ask('GET', `${group}/inferenceservices`)
  for (const service of body.items) {
    if (managed.has(service.metadata.name)) continue
    const { status, body: model } = await ask('GET', `${group}/models/${service.spec.modelRef}`)
    if (status === 200 && model.spec.hardware?.accelerator === 'metal') await start(service, model)
  }
  for (const one of [...managed.values()]) {
    const healthy = await answers(one.port)
    // An unhealthy one is not stopped before the next is started.
    if (!healthy) await start(one.service, one.model)
    else await register(one)
  }
}

let ending = false
process.on('SIGTERM', async () => {
  ending = true
  for (const { child } of managed.values()) {
    child.kill('SIGTERM')
    if (child.exitCode === null && child.signalCode === null)
      await new Promise((resolve) => child.once('exit', resolve))
  }
  process.exit(0)
})

const port = Number(flag('port', '9090'))
if (port > 0) createServer((_, response) => response.end('ok')).listen(port, '127.0.0.1')
if (identity) {
  const ingress = createTlsServer(
    { ...identity, minVersion: 'TLSv1.3' },
    (...exchange) => void answerRelay(...exchange),
  )
  // As with any early end of its listener.
  ingress.on('error', () => process.exit(1))
  await new Promise((resolve) => ingress.listen(ingressPort, resolve))
}
let busy = false
const look = async () => {
  if (busy || ending) return
  busy = true
  await poll().catch((error) => process.stderr.write(`${error}\n`))
  busy = false
}
setInterval(look, 1_000)
await look()
