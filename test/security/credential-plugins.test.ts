import { execFile } from 'node:child_process'
import { access, readdir, truncate, writeFile } from 'node:fs/promises'
import { createServer, type ServerOptions } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { KubeApi } from '../../src/agent-core/kube/kube-api.ts'
import { PinnedContext } from '../../src/agent-core/kube/pinned-context.ts'
import { askProgram } from '../../src/agent-core/util/ask-program.ts'
import type { AgentProcess } from '../support/agent-process.ts'
import { certified, type Certified } from '../support/certificates.ts'
import { maxHeld, watchedAgent } from '../support/event-loop/health-watch.ts'
import { eventually } from '../support/eventually.ts'
import { throwAwayIdentity } from '../support/kube-sim/tls.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('however many requests wait for a credential plugin that hangs, one runs at a time and none outlives its deadline', async () => {
  await using folder = await temporaryFolder()
  const context = await contextWithPlugin(folder.dir, `touch ${folder.dir}/run-$$; sleep 600 & wait`, 2_000)
  const asked = Array.from({ length: 8 }, () => authorization(context))
  const refused = Promise.allSettled(asked)
  await eventually(() =>
    access(join(folder.dir, 'kubeconfig')).then(() => runs(folder.dir).then((all) => all.length === 1)),
  )
  await context.renew()
  const afterRenewal = authorization(context)
  await expect(afterRenewal).rejects.toThrow('did not answer within 2000 ms')
  expect((await refused).map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 'rejected'))
  expect(await runs(folder.dir)).toHaveLength(1)
  expect(
    (await askProgram({ command: 'ps', args: ['-eo', 'args'], env: {}, timeLimitMs: 20_000 })).stdout,
  ).not.toContain(folder.dir)
})

test('a plugin has nobody at its input, and what it says is used until it expires or credentials are renewed', async () => {
  await using folder = await temporaryFolder()
  const answer = tokenText("'$count'")
  const script = `cat; count=$(ls ${folder.dir} | wc -l); touch ${folder.dir}/run-$$; echo '${answer}'`
  const context = await contextWithPlugin(folder.dir, script, 20_000)
  const [first, again] = [await authorization(context), await authorization(context)]
  expect(first).toMatch(/^Bearer \d+$/)
  expect(again).toBe(first)
  await context.renew()
  expect(await authorization(context)).not.toBe(first)
})

describe('whatever a kubeconfig names for its credentials, the agent is not held up', () => {
  const never = 'sleep 600'
  const shell = (name: string) => ({
    'auth-provider': {
      name,
      config: { 'cmd-path': '/bin/sleep', 'cmd-args': '600', 'token-key': '{.t}', 'expiry-key': '{.e}' },
    },
  })
  const endless = '/dev/zero'
  const kinds: readonly {
    readonly what: string
    readonly user: (place: Place) => object
    readonly cluster?: (place: Place) => object
    readonly got: RegExp
  }[] = [
    {
      what: 'auth-provider gcp',
      user: () => shell('gcp'),
      got: /Context "lab" logs in with auth-provider gcp, which kubectl dropped in version 1\.26: install gke-gcloud-auth-plugin/,
    },
    {
      what: 'auth-provider azure',
      user: () => shell('azure'),
      got: /auth-provider azure, .*kubelogin convert-kubeconfig/,
    },
    {
      what: 'exec that never ends',
      user: () => execOf('/bin/sh', '-c', never),
      got: /did not answer within 500 ms/,
    },
    {
      what: 'exec that never stops talking',
      user: () => execOf('/bin/cat', endless),
      got: /printed more than 1048576 bytes/,
    },
    { what: 'tokenFile', user: ({ token }) => ({ tokenFile: token }), got: /^Bearer of-file$/ },
    {
      what: 'tokenFile that is a pipe',
      user: ({ pipe }) => ({ tokenFile: pipe }),
      got: /The token file .* cannot be read: .*pipe is not a regular file/,
    },
    {
      what: 'tokenFile that never ends',
      user: () => ({ tokenFile: endless }),
      got: /\/dev\/zero is not a regular file/,
    },
    {
      what: 'token file that is huge',
      user: ({ huge }) => ({ tokenFile: huge }),
      got: /has more than 1024 KiB/,
    },
    {
      what: 'client certificate that is a pipe',
      user: ({ pipe, token }) => ({ 'client-certificate': pipe, 'client-key': token }),
      got: /The client certificate .* not a regular file/,
    },
    {
      what: 'client key that never ends',
      user: ({ token }) => ({ 'client-certificate': token, 'client-key': endless }),
      got: /The client key .* not a regular file/,
    },
    {
      what: 'certificate authority that is a pipe',
      user: () => ({ token: 't' }),
      cluster: ({ pipe }) => ({ 'certificate-authority': pipe }),
      got: /The certificate authority .* not a regular file/,
    },
    {
      what: 'oidc whose certificate authority is a pipe',
      user: ({ pipe }) => oidc('https://127.0.0.1:1', { 'idp-certificate-authority': pipe }),
      got: /The certificate authority of the login server .* not a regular file/,
    },
    {
      what: 'oidc whose login server does not answer',
      user: () => oidc('https://127.0.0.1:1'),
      got: /The login server https:\/\/127\.0\.0\.1:1 of the kubeconfig does not renew the token \(connect ECONNREFUSED/,
    },
    { what: 'name and password', user: () => ({ username: 'me', password: 'secret' }), got: /^Basic / },
  ]
  test('for any of them, and each request gets them or a sentence', async () => {
    await using folder = await temporaryFolder()
    const place = await placeIn(folder.dir)
    const files = await Promise.all(
      kinds.map(({ user, cluster = () => ({}) }, at) =>
        kubeconfigIn(folder.dir, user(place), { cluster: cluster(place), name: `${at}` }),
      ),
    )
    const script = join(import.meta.dirname, 'asks-credentials.ts')
    // On a process that is held up for good no other signal has an effect.
    const limit = { timeout: 60_000, killSignal: 'SIGKILL' } as const
    const { stdout } = await promisify(execFile)(process.execPath, [script, ...files], limit)
    const told = outcome.parse(JSON.parse(stdout))
    for (const [at, { what, got }] of kinds.entries()) {
      expect(new Set(told[at]?.got), what).toEqual(new Set([expect.stringMatching(got)]))
    }
    expect(kinds.filter((_, at) => (told[at]?.heldMs ?? Infinity) > mostHeldMs)).toEqual([])
  })

  test('for any of them in turn, a running agent is not held', async () => {
    await using folder = await temporaryFolder()
    const place = await placeIn(folder.dir)
    // A plugin that never ends has a minute in a running agent; what is taken is told nowhere.
    const told = kinds.filter(({ what, got }) => what !== 'exec that never ends' && !/^\^B/.test(got.source))
    const plain = kubeconfigOf({ token: 't' })
    const isUp = (agent: AgentProcess) => agent.shows(({ cluster }) => cluster.context === 'lab', 'the context')
    await using watched = await watchedAgent({ folder: folder.dir, kubeconfig: plain, isUp })
    const says = (is: (text: string) => boolean, what: string) =>
      watched.agent.shows(({ cluster: { message }, notices }) => is([message, ...notices].join(' ')), what)
    const isTrouble = (text: string) =>
      /not a regular file|more than 10\d+ |auth-provider (?:gcp|azure)|ECONNREFUSED 127\.0\.0\.1:1\b/.test(text)
    for (const { what, user, cluster = () => ({}) } of told) {
      // Else what is told of one would be taken for what is told of the next.
      await says((text) => !isTrouble(text), `nothing of what came before ${what}`)
      await watched.agent.writeKubeconfig(kubeconfigOf(user(place), cluster(place)))
      await says(isTrouble, what)
      await watched.agent.writeKubeconfig(plain)
    }
    expect(await watched.health.longest()).toBeLessThan(maxHeld)
  })

  test('nor does a kubeconfig that is a pipe', async () => {
    await using folder = await temporaryFolder()
    const { pipe } = await placeIn(folder.dir)
    await expect(PinnedContext.load({ file: pipe, env: {} })).rejects.toThrow('pipe is not a regular file')
  })
})

test('an authority that was replaced counts for the next connection, and a token file is read as it is by then', async () => {
  await using folder = await temporaryFolder()
  const { token } = await placeIn(folder.dir)
  const [own, other] = await Promise.all([certified('own', atLoopback), certified('other')])
  await using server = await answering({ key: own.key, cert: own.cert })
  const [authority, place] = [
    join(folder.dir, 'authority'),
    { 'certificate-authority': 'authority', server: server.url },
  ]
  await writeFile(authority, other.cert)
  const file = await kubeconfigIn(folder.dir, { tokenFile: 'token' }, { cluster: place })
  const context = await PinnedContext.load({ file, env: {} })
  const api = new KubeApi(context)
  await expect(api.version()).rejects.toThrow(/certificate/)
  await Promise.all([writeFile(authority, own.cert), writeFile(token, 'renewed')])
  await context.renew()
  expect([await api.version(), await authorization(context)]).toEqual(['v1.36.3', 'Bearer renewed'])
  await writeFile(authority, other.cert)
  context.reconnect()
  await expect(api.version()).rejects.toThrow(/certificate/)
})

describe('what keeps a request from the API server is named as itself:', () => {
  const day = 86_400_000
  const failure = async (context: PinnedContext): Promise<string | undefined> =>
    new KubeApi(context).version().then(
      () => undefined,
      (error: unknown) => context.connection.troubleOf(error),
    )
  const loggingIn = ({ cert, key }: Certified) => ({
    'client-certificate-data': Buffer.from(cert).toString('base64'),
    'client-key-data': Buffer.from(key).toString('base64'),
  })

  test.each([
    ['expired', [-20, -10], /^The client certificate of this context expired on DATE: log in again/, -10],
    ['is not valid yet', [2, 10], /is valid only from DATE on: check the clock/, 2],
  ] as const)('a client certificate that %s, whether the server refuses it by its answer or by TLS', async (...row) => {
    const [, days, sentence, named] = row
    await using folder = await temporaryFolder()
    const [own, client] = await Promise.all([certified('own', atLoopback), certified('client', { days })])
    for (const rejectUnauthorized of [false, true]) {
      await using server = await answering(
        { key: own.key, cert: own.cert, requestCert: true, ca: client.cert, rejectUnauthorized },
        401,
      )
      const place = { server: server.url, 'insecure-skip-tls-verify': true }
      const file = await kubeconfigIn(folder.dir, loggingIn(client), { cluster: place })
      const date = new Date(Date.now() + named * day).toISOString().slice(0, 10)
      expect((await failure(await PinnedContext.load({ file, env: {} })))?.replace(date, 'DATE')).toMatch(sentence)
    }
  })

  test('a plugin that fails, by the last line that it said, and one that is missing, with what its kubeconfig says of it', async () => {
    await using folder = await temporaryFolder()
    const failing = await contextWithPlugin(folder.dir, 'echo WARN >&2; echo log in first >&2; exit 1', 20_000)
    expect(await failure(failing)).toBe('The credential plugin /bin/sh of the kubeconfig failed: log in first')
    const { exec } = execOf('no-such-plugin')
    const missing = await contextOf(folder.dir, { exec: { ...exec, installHint: 'Run brew install it.' } })
    expect(await failure(missing)).toMatch(/^The kubeconfig logs in with no-such-plugin, .* Run brew install it\.$/)
  })

  test('a login server with a certificate that is not trusted', async () => {
    await using folder = await temporaryFolder()
    await using server = await loginServer(() => ({}))
    const sentence = await failure(await contextOf(folder.dir, oidc(server.issuer)))
    expect(sentence).toMatch(new RegExp(`^The login server ${server.issuer} of .* \\(self-signed certificate\\)`))
  })

  test('a proxy that is not there, without the login that its address holds', async () => {
    await using folder = await temporaryFolder()
    const file = await kubeconfigIn(
      folder.dir,
      { token: 't' },
      { cluster: { 'proxy-url': 'http://ada:secret@127.0.0.1:1' } },
    )
    const sentence = await failure(await PinnedContext.load({ file, env: {} }))
    expect(sentence).toMatch(
      /^The proxy http:\/\/127\.0\.0\.1:1, which the kubeconfig names, does not lead to https.*ECONNREFUSED/,
    )
    const env = { https_proxy: 'http://127.0.0.1:1' }
    const named = await kubeconfigIn(folder.dir, { token: 't' }, { cluster: { server: 'https://192.0.2.1' } })
    expect(await failure(await PinnedContext.load({ file: named, env }))).toMatch(
      /which the environment of the agent names/,
    )
  })
})

describe('a login by oidc', () => {
  test('is renewed once for all requests that wait, with the latest refresh token, also where credentials are read again', async () => {
    await using folder = await temporaryFolder()
    await using server = await loginServer((count) => ({
      id_token: idToken(Date.now() / 1000 + (count === 1 ? 11 : 3_600)),
      refresh_token: `refresh-${count}`,
    }))
    const context = await contextOf(folder.dir, oidc(server.issuer, server.trust))
    const first = await Promise.all([1, 2, 3].map(() => authorization(context)))
    expect(new Set(first).size).toBe(1)
    expect(server.asked).toEqual([{ grant_type: 'refresh_token', refresh_token: 'refresh-0', client_id: 'me' }])
    // Of the kubeconfig and of the login server: a report to send leaves them out.
    const renewed = first[0]?.replace('Bearer ', '') ?? ''
    expect(context.connection.secrets).toEqual(expect.arrayContaining([idToken(1), 'refresh-0', renewed, 'refresh-1']))
    await context.renew()
    expect(await authorization(context)).toBe(first[0])
    expect(server.asked).toHaveLength(1)
    expect(context.notice).toMatch(/gave this agent another refresh token .* kubectl has to log in again/)
  })

  test.each([
    ['an answer without end', 'endless', /its answer has more than 256 KiB/],
    [
      'a refusal',
      { error: 'invalid_grant' },
      /it answered 400 invalid_grant\): check that it answers, or log in again/,
    ],
    ['nonsense', 'hello', /it answered 200\)/],
  ] as const)('that gets %s is told in a sentence', async (_what, answer, sentence) => {
    await using folder = await temporaryFolder()
    await using server = await loginServer(() => answer)
    const context = await contextOf(folder.dir, oidc(server.issuer, server.trust))
    await expect(authorization(context)).rejects.toThrow(sentence)
  })
})

const outcome = z.array(z.object({ got: z.array(z.string()), heldMs: z.number() }))

/** What a plugin or a pipe holds up, it holds up for good; a busy machine gives this process no time for so long. */
const mostHeldMs = 1_000

interface Place {
  readonly pipe: string
  readonly token: string
  readonly huge: string
}

async function placeIn(dir: string): Promise<Place> {
  const [pipe, token, huge] = [join(dir, 'pipe'), join(dir, 'token'), join(dir, 'huge')]
  await promisify(execFile)('mkfifo', [pipe])
  await writeFile(token, 'of-file\n')
  await writeFile(huge, '')
  // Takes no room on the disk.
  await truncate(huge, 64 * 1024 ** 3)
  return { pipe, token, huge }
}

const idToken = (exp: number): string =>
  ['{}', JSON.stringify({ exp }), ''].map((part) => Buffer.from(part).toString('base64url')).join('.')

const oidc = (issuer: string, trust: object = {}) => ({
  'auth-provider': {
    name: 'oidc',
    config: {
      'idp-issuer-url': issuer,
      'client-id': 'me',
      'id-token': idToken(1),
      'refresh-token': 'refresh-0',
      ...trust,
    },
  },
})

/** Answers the renewals of tokens, and tells what it was asked. */
async function loginServer(answer: (count: number) => object | 'endless' | 'hello') {
  const identity = await throwAwayIdentity()
  const asked: Record<string, string>[] = []
  const server = createServer({ key: identity.key, cert: identity.certificate }, (request, response) => {
    if (request.url === '/.well-known/openid-configuration') {
      response.end(JSON.stringify({ token_endpoint: `${issuer}/token` }))
      return
    }
    void text(request).then((form) => {
      asked.push(Object.fromEntries(new URLSearchParams(form)))
      const said = answer(asked.length)
      if (typeof said === 'object') response.writeHead('error' in said ? 400 : 200).end(JSON.stringify(said))
      else if (said === 'hello') response.end(said)
      else {
        const more = (): void => void (response.destroyed || response.write(Buffer.alloc(65_536), more))
        more()
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // a TCP server that listens has no other kind
  const issuer = `https://127.0.0.1:${port}`
  return {
    issuer,
    asked,
    trust: { 'idp-certificate-authority-data': Buffer.from(identity.certificate).toString('base64') },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const version = 'client.authentication.k8s.io/v1'
const tokenText = (token: string): string =>
  `{"kind":"ExecCredential","apiVersion":"${version}","status":{"token":"${token}"}}`
const execOf = (command: string, ...args: string[]) => ({
  exec: { apiVersion: version, interactiveMode: 'Never', command, args },
})

const runs = async (dir: string): Promise<string[]> => (await readdir(dir)).filter((name) => name.startsWith('run-'))

async function authorization({ connection }: PinnedContext): Promise<string | undefined> {
  const { headers } = await connection.authenticated()
  return headers['authorization']?.toString()
}

const atLoopback = { names: [{ type: 'ip', value: '127.0.0.1' }] } as const

/** An API server that says its version to everybody, or nothing with another code. */
async function answering(tls: ServerOptions, code = 200) {
  const server = createServer(tls, (_, response) => {
    response.writeHead(code, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ gitVersion: 'v1.36.3', major: '1', minor: '36' }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // as above
  return {
    url: `https://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function contextWithPlugin(dir: string, script: string, pluginTimeLimitMs: number): Promise<PinnedContext> {
  return contextOf(dir, execOf('/bin/sh', '-c', script), pluginTimeLimitMs)
}

async function contextOf(dir: string, user: object, pluginTimeLimitMs = 20_000): Promise<PinnedContext> {
  const file = await kubeconfigIn(dir, user)
  return PinnedContext.load({ file, env: { PATH: '/usr/bin:/bin' }, pluginTimeLimitMs })
}

async function kubeconfigIn(
  dir: string,
  user: object,
  { cluster = {}, name = 'kubeconfig' }: { cluster?: object; name?: string } = {},
): Promise<string> {
  const file = join(dir, name)
  await writeFile(file, kubeconfigOf(user, cluster))
  return file
}

/** Of a cluster that refuses every connection at once, as nothing has this port. */
const kubeconfigOf = (user: object, cluster: object = {}): string =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'lab',
    clusters: [{ name: 'lab', cluster: { server: 'https://127.0.0.1:2', ...cluster } }],
    contexts: [{ name: 'lab', context: { cluster: 'lab', user: 'me' } }],
    users: [{ name: 'me', user }],
  })
