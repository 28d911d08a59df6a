import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { createServer } from 'node:https'
import net, { type AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { TLSSocket } from 'node:tls'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { KubeApi } from '../../../src/agent-core/kube/kube-api.ts'
import { PinnedContext } from '../../../src/agent-core/kube/pinned-context.ts'
import { messageOf } from '../../../src/agent-core/util/message-of.ts'
import { certified } from '../../support/certificates.ts'
import { useKubectl } from '../../support/skip.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const kubectl = useKubectl()

/** The text is a file `kc`, which --kubeconfig names unless the environment has KUBECONFIG. `@NAME@` stands for what is known while the server runs. */
type Row = readonly [name: string, files: string | Readonly<Record<string, string>>, options?: RowOptions]

interface RowOptions {
  readonly env?: Readonly<Record<string, string>>
  /** Why the agent does otherwise than kubectl. */
  readonly differs?: string
}

/** A kubeconfig of one context, which names of its entries follow. */
const kubeconfig = (cluster: string, user: string, context: string, more: string, current: string): string =>
  `apiVersion: v1
kind: Config
preferences: {}
${current}
clusters:
- {name: c, cluster: {${cluster}}}
${more.startsWith('{name: c') ? `- ${more}` : ''}
users:
- {name: u, user: {${user}}}
${more.startsWith('{name: u') ? `- ${more}` : ''}
contexts:
- {name: x, context: {${context}}}
${more.startsWith('{name: x') ? `- ${more}` : ''}
`
const [at, trusted, both, now] = [
  "server: '@URL@'",
  "server: '@URL@', certificate-authority-data: '@CA@'",
  'cluster: c, user: u',
  'current-context: x',
]
const cluster = (text: string, user = 'token: t'): string => kubeconfig(text, user, both, '', now)
const trusting = (text: string): string => cluster(`${trusted}, ${text}`)
const user = (text: string): string => cluster(trusted, text)
const context = (text: string): string => kubeconfig(trusted, 'token: t', text, '', now)
const beside = (text: string): string => kubeconfig(trusted, 'token: t', both, text, now)
const current = (text: string): string => kubeconfig(trusted, 'token: t', both, '', text)
const plain = current(now)
const listed = (...names: string[]): RowOptions =>
  env({ KUBECONFIG: names.map((one) => one && `@DIR@/${one}`).join(':') })
const env = (more: Record<string, string>): RowOptions => ({ env: more })
const differs = (why: string): RowOptions => ({ differs: why })

const nulls = 'apiVersion: v1\nkind: Config\nclusters: null\ncontexts: null\npreferences: {}\nusers: null\n'
const [inA, inB, inC] = [
  `clusters: [{name: c, cluster: {${trusted}}}]`,
  'users: [{name: u, user: {token: t}}]',
  `contexts: [{name: x, context: {${both}}}]\n${now}`,
]
const asJson = `{\n\t"current-context": "x", "apiVersion": "v1", "kind": "Config",
\t"clusters": [{"name": "c", "cluster": {"server": "@URL@", "certificate-authority-data": "@CA@"}}],
\t"users": [{"name": "u", "user": {"token": "t"}}], "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]\n}`
const anchored = cluster(`<<: *trust, ${at}`).replace(
  'preferences: {}',
  "trust: &trust {certificate-authority-data: '@CA@'}",
)
const ofFiles: readonly Row[] = [
  ['one file', plain],
  ['the same file twice', { a: plain }, listed('a', 'a')],
  ['the same names in two files', { a: plain, b: user('token: other') }, listed('a', 'b')],
  ['no current context in the first', { a: current(''), b: user('token: b') }, listed('a', 'b')],
  ['an empty file first', { a: '', b: plain }, listed('a', 'b')],
  ['only comments first', { a: '# nothing here yet\n', b: plain }, listed('a', 'b')],
  ['a file that is not there', { a: plain }, listed('none', 'a')],
  ['no file at all', {}, listed('none')],
  ['no such file for --kubeconfig', {}],
  ['lists that are null', { a: nulls, b: plain }, listed('a', 'b')],
  ['a file that names only the context', { a: nulls + now, b: current('') }, listed('a', 'b')],
  ['empty names in the list', { a: plain }, listed('', 'a', '')],
  ['a broken file last', { a: plain, b: 'clusters: [\n  oops' }, listed('a', 'b')],
  ['cluster, user and context in three files', { a: inA, b: inB, c: inC }, listed('a', 'b', 'c')],
  ['a byte order mark', `\uFEFF${plain}`],
  ['the line ends of Windows', plain.replaceAll('\n', '\r\n')],
  ['JSON with tabs', asJson],
  ['anchors and merged keys', anchored],
  ['a key twice', user('token: a, token: b')],
  ['a name twice in one file', beside('{name: u, user: {token: b}}')],
  ['two documents', `${plain}---\n${user('token: b')}`],
  ['a tab for indentation', `${plain}extensions:\n\t- {name: e}\n`],
  ['a number as a name', beside('{name: x123, context: {}}').replace('x123', '123')],
  ['a name like a number of e notation', beside('{name: x43, context: {}}').replace('x43', '433e40')],
  ['a date as a token', user('token: 2026-01-01')],
  ['a time as a token', user('token: 1:30')],
  ['yes for a truth value', cluster(`${at}, insecure-skip-tls-verify: yes`)],
  ['yes for text', user('token: yes')],
  ['fields that nobody knows', `${user('token: t, lens: {a: [1]}')}\nextensions: [{name: a, extension: 5}]\n`],
  ['another version', plain.replace('v1', 'v2')],
  ['another kind', plain.replace('kind: Config', 'kind: ConfigMap')],
  ['neither version nor kind', plain.replace(/apiVersion.*\nkind.*\n/, '')],
]

const minikube = '[{name: cluster_info, extension: {last-update: now, provider: minikube.sigs.k8s.io, version: v1.37}}]'
const ofEntries: readonly Row[] = [
  ['a user that is null elsewhere', beside('{name: u2, user: null}')],
  ['half a context elsewhere', beside("{name: x2, context: {cluster: '', namespace: ns, user: ''}}")],
  ['half a cluster elsewhere', beside("{name: c2, cluster: {server: ''}}")],
  ['a proxy that is none elsewhere', beside("{name: c2, cluster: {server: 'https://h', proxy-url: '%'}}")],
  ['half a plugin elsewhere', beside('{name: u2, user: {exec: {apiVersion: v9}}}')],
  ['a number as token elsewhere', beside('{name: u2, user: {token: 5}}')],
  ['data that is not base64 elsewhere', beside('{name: c2, cluster: {certificate-authority-data: hello-world}}')],
  ['base64 in lines', cluster(`${at}, certificate-authority-data: "@CALINES@"`)],
  ['base64 without its end', user('token: t, client-certificate-data: YQ')],
  ['no current context', current('')],
  ['a context without a name', current('').replace('name: x, ', ''), differs('Nobody could choose or keep it.')],
  ['no such context', current('current-context: z')],
  ['no such cluster', context('cluster: z, user: u')],
  ['no such user', context('cluster: c, user: z')],
  ['a context without a user', context('cluster: c')],
  ['names as OpenShift and Rancher make them', plain.replaceAll(/\bu\b/g, "'kube:admin/api-c:6443+1'")],
  ['what minikube adds', trusting(`extensions: ${minikube}`)],
  ['a server without https', cluster(trusted.replace('https://', ''))],
  ['a server with a slash at its end', cluster(trusted.replace('@URL@', '@URL@/'))],
  ['a server with a query', cluster(trusted.replace('@URL@', '@URL@?a=b#c'))],
  ['an authority in a file', { kc: cluster(`${at}, certificate-authority: ca/a.pem`), 'ca/a.pem': '@CAPEM@' }],
  ['an authority in both forms', { kc: trusting('certificate-authority: ca.pem'), 'ca.pem': '@CAPEM@' }],
  ['an authority that is not there', cluster(`${at}, certificate-authority: ca.pem`)],
  ['an authority that is text', cluster(`${at}, certificate-authority-data: aGVsbG8=`)],
  ['an authority that is no root', cluster(`${at}, certificate-authority-data: '@MIDDLE@'`)],
  ['an authority that is the server', cluster(`${at}, certificate-authority-data: '@LEAF@'`)],
  ['no authority', cluster(at)],
  ['no check of the certificate', cluster(`${at}, insecure-skip-tls-verify: true`)],
  ['an authority and no check', trusting('insecure-skip-tls-verify: true')],
  ['the name in the certificate', trusting('tls-server-name: kube.corp.test')],
  ['a name that is not in the certificate', trusting('tls-server-name: kube.other.test')],
]

const [pair, pairFiles] = [
  "client-certificate-data: '@CERT@', client-key-data: '@KEY@'",
  { 'p/c.pem': '@CERTPEM@', 'p/k.pem': '@KEYPEM@' },
]
const idToken = ['{}', '{"exp":4000000000}', ''].map((part) => Buffer.from(part).toString('base64url')).join('.')
const oidc = (more: string): string =>
  `auth-provider: {name: oidc, config: {idp-issuer-url: 'https://127.0.0.1:1', id-token: ${idToken}, ${more}}}`
const many = 'as: "Jürgen M", as-uid: u-1, as-groups: [macs, "team b"]'
const extra = 'as-user-extra: {reason: [a, b], none: [], "example.org/Ä (x)": [c]}'
const ofUsers: readonly Row[] = [
  ['a client certificate', user(pair)],
  ['a client certificate in files', { kc: user('client-certificate: p/c.pem, client-key: ./p/k.pem'), ...pairFiles }],
  ['a client certificate without its key', user("client-certificate-data: '@CERT@'")],
  ['a client certificate in both forms', { kc: user(`${pair}, client-certificate: p/c.pem`), ...pairFiles }],
  ['a client key that is not there', user("client-certificate-data: '@CERT@', client-key: k.pem")],
  ['a client key of another certificate', user("client-certificate-data: '@CERT@', client-key-data: '@OTHERKEY@'")],
  ['a client certificate and a token', user(`${pair}, token: t`)],
  ['an expired client certificate', user("client-certificate-data: '@OLDCERT@', client-key-data: '@OLDKEY@'")],
  ['a token in a file', { kc: user('tokenFile: token'), token: ' of-file\n' }],
  ['a token and one in a file', { kc: user('tokenFile: token, token: t'), token: 'of-file' }],
  ['a token and a file that is not there', user('tokenFile: token, token: t')],
  ['a token file that is empty', { kc: user('tokenFile: token'), token: '\n' }],
  ['a name with a password', user('username: me, password: "p@ss:ä"')],
  ['a name without a password', user('username: me')],
  ['a token and a name with a password', user('token: t, username: me, password: p')],
  ['a token file and a name with a password', { kc: user('tokenFile: a, username: me'), a: 't' }],
  ['nobody', user(''), differs('There is nobody whom the agent could ask for a name, as kubectl does.')],
  ['as another user', user('token: t, as: metal')],
  ['as another user with all that belongs to it', user(`token: t, ${many}, ${extra}`)],
  ['as groups of nobody', user('token: t, as-groups: [macs]')],
  ['oidc', user(oidc('client-id: me'))],
  ['oidc without its client', user(oidc('a: b'))],
  ['oidc and a token', user(`${oidc('client-id: me')}, token: t`)],
  ['a login that is gone', user('auth-provider: {name: gcp, config: {access-token: t}}')],
]

const v1 = 'client.authentication.k8s.io/v1'
const exec = (more = '', { command = './p.sh', version = v1, mode = 'IfAvailable' } = {}): string =>
  `exec: {apiVersion: ${version}, command: '${command}', interactiveMode: ${mode}${more && `, ${more}`}}`
const script = (text: string): string => `#!/bin/sh\n${text}\n`
const printing = (text: string): string => `cat <<'END'\n${text}\nEND`
const answering = (status: object, version = v1): string =>
  printing(JSON.stringify({ kind: 'ExecCredential', apiVersion: version, spec: {}, status }))
const token = answering({ token: 'p' })
/** Logs in with what it was told, for the server to see. */
const telling = (version = v1): string =>
  answering({ token: 'TOLD' }, version).replace(
    'cat',
    `sed "s|TOLD|$(printf %s "$KUBERNETES_EXEC_INFO" | base64 | tr -d '\\n')|"`,
  )
const plugin = (text: string, said = token, of = trusted): Record<string, string> => ({
  kc: cluster(of, text),
  'p.sh': script(said),
})
const certificate = { clientCertificateData: '@CERTTEXT@', clientKeyData: '@KEYTEXT@' }
const end = '2031-02-03T04:05:06'
const above = exec('', { command: '../p.sh' })
const told = 'provideClusterInfo: true'
const ofGardener = 'extensions: [{name: client.authentication.k8s.io/exec, extension: {shoot: a, n: 1}}, {name: other}]'
const old = "server: '@URL@/', certificate-authority: ca.pem, tls-server-name: localhost, disable-compression: true"
const shown = `echo '{"kind":"ExecCredential","apiVersion":"${v1}","status":{"token":"'"$WHO$EMPTY"'"}}'`
const ofPlugins: readonly Row[] = [
  ['a plugin', plugin(exec())],
  ['a plugin above its folder', { 'a/kc': user(above), 'p.sh': script(token) }, listed('a/kc')],
  ['a plugin on the PATH', { kc: user(exec('', { command: 'own.sh' })), 'bin/own.sh': script(token) }],
  ['a plugin that is not there', user(exec('installHint: install it', { command: 'no-such-plugin' }))],
  ['nulls in its answer', plugin(exec(), answering({ token: 'p', expirationTimestamp: null, clientKeyData: null }))],
  ['nulls in its question', plugin(exec('args: null, env: null, installHint: null, provideClusterInfo: null'))],
  ['variables of its own, one empty', plugin(exec('env: [{name: WHO, value: me}, {name: EMPTY}]'), shown)],
  ['a variable without a name', plugin(exec('env: [{value: me}]'))],
  [
    'v1beta1 without interactiveMode',
    plugin(`exec: {apiVersion: ${v1}beta1, command: ./p.sh}`, answering({ token: 'p' }, `${v1}beta1`)),
  ],
  ['v1 without interactiveMode', plugin(`exec: {apiVersion: ${v1}, command: ./p.sh}`)],
  ['v1alpha1', plugin(exec('', { version: `${v1}alpha1` }), answering({ token: 'p' }, `${v1}alpha1`))],
  ['no command', user(exec('', { command: '' }))],
  ['a plugin that wants a person', plugin(exec('', { mode: 'Always' }))],
  ['an answer of another version', plugin(exec(), answering({ token: 'p' }, `${v1}beta1`))],
  ['an answer without its kind', plugin(exec(), printing('{"status":{"token":"p"}}'))],
  ['an answer in YAML', plugin(exec(), printing(`kind: ExecCredential\napiVersion: ${v1}\nstatus: {token: p}`))],
  ['a warning before the answer', plugin(exec(), `echo 'WARN: old'\n${token}`)],
  ['a warning beside the answer', plugin(exec(), `echo 'WARN: old' >&2\n${token}`)],
  ['an end in nanoseconds', plugin(exec(), answering({ token: 'p', expirationTimestamp: `${end}.123456789+00:00` }))],
  ['an end that is no time', plugin(exec(), answering({ token: 'p', expirationTimestamp: 'soon' }))],
  ['an answer without a status', plugin(exec(), printing(`{"kind":"ExecCredential","apiVersion":"${v1}"}`))],
  ['an answer without a token', plugin(exec(), answering({}))],
  ['a plugin that fails', plugin(exec(), 'echo "log in" >&2\nexit 1')],
  ['a certificate of a plugin', plugin(exec(), answering(certificate))],
  ['a certificate without its key', plugin(exec(), answering({ token: 'p', clientCertificateData: '@CERTTEXT@' }))],
  ['a plugin and a token', plugin(`token: t, ${exec()}`)],
  ['a plugin and a client certificate', plugin(`${pair}, ${exec()}`)],
  ['a plugin and a login', plugin(`${oidc('client-id: me')}, ${exec()}`)],
  ['a plugin as another user', plugin(`as: metal, as-groups: [a], ${exec()}`)],
  ['what a plugin is told', plugin(exec(), telling())],
  ['what a plugin is told of the cluster', plugin(exec(told), telling(), `${trusted}, ${ofGardener}`)],
  [
    'what one of v1beta1 is told',
    { ...plugin(exec(told, { version: `${v1}beta1` }), telling(`${v1}beta1`), old), 'ca.pem': '@CAPEM@' },
  ],
  ['what a plugin is told without a check', plugin(exec(told), telling(), `${at}, insecure-skip-tls-verify: true`)],
  ['what a plugin is told of a proxy', plugin(exec(told), telling(), `${trusted}, proxy-url: 'http://@PROXY@'`)],
]

const named = "server: 'https://kube.corp.test:6443@PATH@', certificate-authority-data: '@CA@'"
const through = (proxy: string, more = named): string => cluster(`${more}, proxy-url: '${proxy}'`)
const ofProxies: readonly Row[] = [
  ['a proxy', through('http://@PROXY@')],
  ['a proxy with a login', through('http://us%40er:p%3Ass@@PROXY@')],
  ['a proxy to an address', through('http://@PROXY@', trusted)],
  ['a SOCKS proxy', through('socks5://@SOCKS@')],
  ['a SOCKS proxy and another name', through('socks5://@SOCKS@', `${named}, tls-server-name: localhost`)],
  ['a SOCKS proxy and a wrong name', through('socks5://@SOCKS@', `${named}, tls-server-name: kube.other.test`)],
  ['a SOCKS proxy to an address', through('socks5://@SOCKS@', trusted), differs('undici greets by the address.')],
  ['a SOCKS proxy as curl names it', through('socks5h://@SOCKS@'), differs('It means what socks5 means to kubectl.')],
  ['a proxy without http', through('@PROXY@')],
  ['a proxy that is not there', through('http://127.0.0.1:1')],
  ['HTTPS_PROXY', cluster(named), env({ HTTPS_PROXY: 'http://@PROXY@' })],
  ['https_proxy without http', cluster(named), env({ https_proxy: '@PROXY@' })],
  ['HTTPS_PROXY of SOCKS', cluster(named), env({ HTTPS_PROXY: 'socks5://@SOCKS@' })],
  ['HTTPS_PROXY and a server of this machine', plain, env({ HTTPS_PROXY: 'http://127.0.0.1:1' })],
  ['HTTP_PROXY alone', cluster(named), env({ HTTP_PROXY: 'http://@PROXY@' })],
  ['NO_PROXY', cluster(named), env({ HTTPS_PROXY: 'http://@PROXY@', NO_PROXY: '.corp.test' })],
  ['proxy-url and NO_PROXY', through('http://@PROXY@'), env({ NO_PROXY: '*' })],
  ['proxy-url and HTTPS_PROXY', through('socks5://@SOCKS@'), env({ HTTPS_PROXY: 'http://@PROXY@' })],
]

interface World extends Disposable {
  readonly fill: (text: string, row: { readonly path: string; readonly dir: string }) => string
  /** What was seen of the requests below a path, since it was asked last. */
  readonly seen: (path: string) => unknown[]
}
let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world[Symbol.dispose]())

let rows = 0
const tables = { files: ofFiles, entries: ofEntries, users: ofUsers, plugins: ofPlugins, proxies: ofProxies }
describe.concurrent.each(Object.entries(tables))(
  'kubeconfigs are taken as kubectl takes them, by their %s:',
  (_, table) => {
    for (const [name, files, options = {}] of table) test(name, () => compare(files, options))
  },
)

async function compare(files: Row[1], { env: stated = {}, differs: why }: RowOptions): Promise<void> {
  await using folder = await temporaryFolder()
  const place = { path: `/row-${(rows += 1)}`, dir: folder.dir }
  for (const [name, text] of Object.entries(typeof files === 'string' ? { kc: files } : files)) {
    const file = join(folder.dir, name)
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, world.fill(text, place), { mode: 0o755 })
  }
  const given = Object.fromEntries(Object.entries(stated).map(([key, value]) => [key, world.fill(value, place)]))
  const whole = { PATH: `${folder.dir}/bin:/usr/bin:/bin`, HOME: folder.dir, ...given }
  const file = 'KUBECONFIG' in given ? undefined : join(folder.dir, 'kc')
  const right = await judge(file, whole, place.path)
  const ours = await answerOf(file, whole, place.path)
  if (why === undefined) expect(ours.outcome, ours.said).toEqual(right.outcome)
  else expect(ours.outcome, why).not.toEqual(right.outcome)
}

type Outcome = { readonly outcome: unknown; readonly said: string }

/** Of a request that did not get through nothing counts but that. */
const outcomeOf = (said: string | undefined, path: string): Outcome => {
  const [first] = world.seen(path)
  return { outcome: said === undefined ? first : 'refused', said: said ?? '' }
}

async function judge(file: string | undefined, env: Record<string, string>, path: string): Promise<Outcome> {
  const args = [
    ...(file === undefined ? [] : ['--kubeconfig', file]),
    '--request-timeout=20s',
    'get',
    '--raw',
    '/version',
  ]
  const asked = promisify(execFile)(kubectl, args, { env, cwd: '/' })
  // It may ask a person.
  asked.child.stdin?.end()
  const failure = await asked.then(() => undefined, messageOf)
  return outcomeOf(failure, path)
}

async function answerOf(file: string | undefined, env: Record<string, string>, path: string): Promise<Outcome> {
  const asked = PinnedContext.load({ file, env }).then((context) => new KubeApi(context).version())
  return outcomeOf(await asked.then(() => undefined, messageOf), path)
}

/** An API server that takes everybody, and the ways to it. */
async function openWorld(): Promise<World> {
  const root = await certified('root', { isAuthority: true })
  const middle = await certified('middle', { isAuthority: true, by: root })
  const dns = ['kube.corp.test', 'localhost'].map((value) => ({ type: 'dns' as const, value }))
  const leaf = await certified('server', { by: middle, names: [...dns, { type: 'ip', value: '127.0.0.1' }] })
  const client = await certified('client')
  const other = await certified('other')
  const old = await certified('old', { days: [-20, -10] })
  const seen = new Map<string, unknown[]>()
  const ways = new Map<number, string>()
  const tls = { key: leaf.key, cert: leaf.cert + middle.cert, requestCert: true, rejectUnauthorized: false }
  const server = createServer(tls, (request, response) => {
    const { pathname } = new URL(request.url ?? '', 'https://server')
    const path = /^\/row-\d+/.exec(pathname)?.[0] ?? ''
    seen.set(path, [
      ...(seen.get(path) ?? []),
      { pathname, ...identityIn(request), by: ways.get(request.socket.remotePort ?? 0) },
    ])
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ major: '1', minor: '36', gitVersion: 'v1.36.3' }))
  })
  const listening = async (one: net.Server): Promise<number> => {
    await once(one.listen(0, '127.0.0.1'), 'listening')
    return (one.address() as AddressInfo).port
  }
  const port = await listening(server)
  /** Whatever name is asked for, it is the server. */
  const pass = (socket: net.Socket, how: string, answer: string | Buffer): void => {
    const up = net.connect(port, '127.0.0.1', () => {
      ways.set(up.localPort ?? 0, how)
      socket.write(answer)
      up.pipe(socket).pipe(up)
    })
    for (const [one, peer] of [
      [up, socket],
      [socket, up],
    ] as const)
      one.on('error', () => peer.destroy())
  }
  const proxy = net.createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', (head) => {
      const [, asked = ''] = /^CONNECT (\S+?)(?::\d+)? /.exec(head.toString()) ?? []
      const login = /^proxy-authorization: (.*)$/im.exec(head.toString())?.[1]?.trim()
      pass(socket, ['CONNECT', asked, login].join(' '), 'HTTP/1.1 200 OK\r\n\r\n')
    })
  })
  const socks = net.createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => {
      socket.write(Buffer.from([5, 0]))
      socket.once('data', (asked) => {
        const name = asked[3] === 3 ? asked.subarray(5, 5 + (asked[4] ?? 0)).toString() : asked.subarray(4, 8).join('.')
        pass(socket, `SOCKS ${name}`, Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]))
      })
    })
  })
  const [proxyPort, socksPort] = [await listening(proxy), await listening(socks)]
  const base64 = (text: string): string => Buffer.from(text).toString('base64')
  const text = (pem: string): string => JSON.stringify(pem).slice(1, -1)
  const known: Readonly<Record<string, string>> = {
    ...{ CA: base64(root.cert), CAPEM: root.cert, MIDDLE: base64(middle.cert), LEAF: base64(leaf.cert) },
    CALINES: base64(root.cert).replaceAll(/.{64}/g, '$&\\n'),
    ...{ CERT: base64(client.cert), KEY: base64(client.key), CERTPEM: client.cert, KEYPEM: client.key },
    ...{ CERTTEXT: text(client.cert), KEYTEXT: text(client.key), OTHERKEY: base64(other.key) },
    ...{ OLDCERT: base64(old.cert), OLDKEY: base64(old.key) },
    ...{ PROXY: `127.0.0.1:${proxyPort}`, SOCKS: `127.0.0.1:${socksPort}` },
  }
  return {
    fill: (template, { path, dir }) => {
      const all: typeof known = { ...known, DIR: dir, PATH: path, URL: `https://127.0.0.1:${port}${path}` }
      return template.replaceAll(/@([A-Z]+)@/g, (whole: string, name: string) => all[name] ?? whole)
    },
    seen: (path) => {
      const requests = seen.get(path) ?? []
      seen.delete(path)
      return requests
    },
    [Symbol.dispose]: () => {
      server.closeAllConnections()
      for (const one of [server, proxy, socks]) one.close()
    },
  }
}

/** Who asks, as whom, and what a plugin that tells it was told. */
function identityIn({ rawHeaders, socket }: IncomingMessage): object {
  const pairs = rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [[name.toLowerCase(), rawHeaders[at + 1] ?? '']] : []))
  const told = pairs.filter(([name]) => /^(?:authorization|impersonate-)/.test(name ?? ''))
  // A server that requests certificates speaks TLS.
  const tls = socket as TLSSocket
  const { subject } = tls.getPeerX509Certificate() ?? {}
  return { headers: told.map(readable).toSorted(), servername: tls.servername, certificate: subject }
}

const readable = ([name, value = '']: string[]): string => {
  const info = Buffer.from(value.replace('Bearer ', ''), 'base64').toString()
  return `${name}: ${info.includes('ExecCredential') ? sorted(JSON.parse(info)) : value}`
}

const sorted = (value: unknown): string =>
  JSON.stringify(value, (_, one: unknown) =>
    typeof one === 'object' && one !== null && !Array.isArray(one)
      ? Object.fromEntries(Object.entries(one).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : one,
  )
