import { randomBytes } from 'node:crypto'
import { mkdir, truncate, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { crashReports, diagnosticFiles, endOfFile } from '../../../src/agent-core/doctor/diagnostics.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const home = '/Users/ada'
const random = (): string => randomBytes(12).toString('hex')
const jwtPart = (): string => randomBytes(18).toString('base64url')

/** Each makes something with a secret of its own in it. */
const places: readonly ((secret: string) => unknown)[] = [
  // By the name of a field, however it is written and however deep it is.
  ...[
    'token',
    'hfToken',
    'Authorization',
    'client_secret',
    'password',
    'apiKey',
    'api_key',
    'api-key',
    'credentials',
  ].map((name) => (secret: string) => ({ [name]: secret })),
  (secret) => ({ a: { b: [{ c: { secret } }] } }),
  (secret) => ({ token: { value: [secret] } }),
  (secret) => ({
    metadata: { annotations: { 'kubectl.kubernetes.io/last-applied-configuration': `{"x":"${secret}"}` } },
  }),
  (secret) => ({ metadata: { managedFields: [{ v: secret }] } }),
  // By what a text looks like.
  (secret) => `Authorization: Bearer ${secret}`,
  (secret) => `authorization: basic ${secret}`,
  (secret) => `the token is hf_${secret}`,
  (secret) => `OPENAI_API_KEY=sk-${secret}`,
  (secret) => `key sk-proj-${secret}`,
  (secret) => `ghp_${secret}`,
  (secret) => `github_pat_${secret}`,
  (secret) => `glpat-${secret}`,
  (secret) => `xoxb-${secret}`,
  (secret) => `AKIA${secret}`,
  (secret) => `eyJ${jwtPart()}.${secret}${jwtPart()}.${secret}`,
  (secret) => `https://ada:${secret}@hub.example/x`,
  (secret) => `GET https://s3.example/x?X-Amz-Signature=${secret}&y=1`,
  (secret) => `GET https://s3.example/x?sig=${secret}`,
  (secret) => `GET https://s3.example/x?a=1&access_token=${secret} HTTP/1.1`,
  (secret) => `https://s3.example/x?X-Amz-Credential=${secret}`,
  (secret) => `-----BEGIN RSA PRIVATE KEY-----\n${secret}\n-----END RSA PRIVATE KEY-----`,
  (secret) => `-----BEGIN PRIVATE KEY-----\n${secret}`,
  (secret) => `llama-server --api-key ${secret} --port 1`,
  (secret) => `llama-server --api-key=${secret}`,
  (secret) => `llama-server --hf-token "${secret} and more"`,
  (secret) => `x -hft '${secret}'`,
  (secret) => `MY_TOKEN=${secret}`,
  (secret) => `{"api_key":"${secret}","a":1}`,
  (secret) => `x-api-key: ${secret}`,
  (secret) => `password: '${secret} and more'`,
  (secret) => ({ spec: { env: [{ name: 'HF_HOME', value: secret }] } }),
  (secret) => ['--api-key', secret, '--port', '1'],
  (secret) => ({ extraArgs: ['--hf-token', secret] }),
  (secret) => ({ log: [`a line`, `Bearer ${secret}`] }),
  (secret) => ({ [`Bearer ${secret}`]: 'as a key' }),
]

test('forty secrets that are planted everywhere are not in a report, and neither is the home of the person', () => {
  const known = [random(), random(), random()]
  // One that begins as another does.
  known.push(`${known[0] ?? ''}${random()}`)
  const secrets = [...places.map(random), ...known]
  expect(secrets.length).toBeGreaterThanOrEqual(40)
  const parts = {
    'all.json': places.map((place, index) => place(secrets[index] ?? '')),
    'agent.log': places
      .map((place, index) => [place, secrets[index] ?? ''] as const)
      .flatMap(([place, secret]) => {
        const made = place(secret)
        return typeof made === 'string' ? [made] : []
      })
      .join('\n'),
    'known.log': `kubeconfig ${known[0] ?? ''}, "${known[1] ?? ''}" x${known[2] ?? ''}y ${known[3] ?? ''} ${home}/Library ${home}belle/x`,
  }
  const files = diagnosticFiles(parts, { values: known, home })
  const whole = files.map(({ text }) => text).join('\n')
  expect(secrets.filter((secret) => whole.includes(secret))).toEqual([])
  expect(whole.replace('/Users/adabelle/x', '')).not.toContain(home)
  expect(whole).toContain('~/Library')
})

test('what is no secret stays: figures of tokens, names, sentences', () => {
  const parts = {
    'some.json': {
      tokens: 12,
      tokensPerSecond: 3.5,
      name: 'llama-3',
      token: 7,
      says: 'Choose --token-file.',
      when: null,
      named: [{ name: 'http' }, { name: 'http', value: 8_080 }, { name: 7, value: 'stays' }, { value: 'stays' }],
      args: ['--port', '1', 'plain'],
    },
  }
  const [file] = diagnosticFiles(parts, { values: ['short'.slice(0, 3)], home: '/' })
  expect(JSON.parse(file?.text ?? '')).toEqual(parts['some.json'])
})

test('a file that is too long keeps its end, whole lines alone', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.dir, 'agent.log')
  await writeFile(file, Array.from({ length: 60_000 }, (_, index) => `line ${index}`).join('\n'))
  const read = await endOfFile(file)
  expect(read?.endsWith('line 59999')).toBe(true)
  const [kept] = diagnosticFiles({ 'agent.log': `${'x'.repeat(600_000)}\n${read ?? ''}` }, { values: [], home })
  expect(kept?.text).toMatch(/^… earlier lines are left out\nline \d+\n/)
  expect(kept?.text.length).toBeLessThanOrEqual(530_000)
})

test('a log of 100 MB is not read whole, one that is not there or is a folder is left out', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.dir, 'huge')
  await writeFile(file, '')
  await truncate(file, 100e6)
  await mkdir(join(folder.dir, 'is-a-folder'))
  expect((await endOfFile(file))?.length).toBe(0)
  expect(await endOfFile(join(folder.dir, 'none'))).toBeUndefined()
  expect(await endOfFile(join(folder.dir, 'is-a-folder'))).toBe('It is not a file.\n')
})

test('of crashes the newest reports of our programs are taken, each only to the line that is too much', async () => {
  await using folder = await temporaryFolder()
  const reports = join(folder.dir, 'Library/Logs/DiagnosticReports')
  expect(await crashReports(folder.dir)).toEqual({})
  await mkdir(reports, { recursive: true })
  const ours = ['Metalbar-5.ips', 'Metalbar Helper (Renderer)-4.ips', 'metal-agent_3.crash', 'llama-server-2.ips']
  const names = ['Safari-9.ips', 'Metalbarista-8.ips', 'Metalbar-7.dmp', ...ours, 'Metalbar-1.ips']
  for (const [index, name] of names.entries()) {
    await writeFile(join(reports, name), index === 3 ? `{"cause":"SIGSEGV"}\n${'library\n'.repeat(100_000)}` : name)
    await utimes(join(reports, name), 0, 1_000 - index)
  }
  const { 'crashes/Metalbar-5.ips': cut, ...others } = await crashReports(folder.dir)
  expect(others).toEqual(Object.fromEntries(ours.slice(1).map((name) => [`crashes/${name}`, name])))
  expect(cut).toMatch(/^{"cause":"SIGSEGV"}\n(?:library\n){10000,20000}… later lines are left out\n$/)
})
