import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ApiError } from '../../../../src/agent-core/kube/api-error.ts'
import { hubCredentials, maySend } from '../../../../src/agent-core/models/download/request.ts'
import { hubAddressOf, hubEndpoint, isHubOffline } from '../../../../src/agent-core/models/hub/endpoint.ts'
import { hubToken, hubOfSecret, tokenOfSecret } from '../../../../src/agent-core/models/hub/token.ts'
import { secretMissing, secretUnreadable } from '../../../../src/agent-core/models/source-secret.ts'
import { secretIn } from '../../../../src/agent-core/reconcile/model-request.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'
import { failure } from '../world.ts'

describe('the token of the Hub', () => {
  test('comes from the Secret, else the setting, else the app, else the environment, else the file of the tools', async () => {
    await using home = await temporaryFolder()
    await mkdir(join(home.dir, '.cache', 'huggingface'), { recursive: true })
    const standard = join(home.dir, '.cache', 'huggingface', 'token')
    await writeFile(standard, 'hf_file\n')
    await writeFile(join(home.dir, 'other'), 'hf_other')
    await writeFile(join(home.dir, 'mine'), ' hf_set ')
    const [hubTokenFile, keptHubToken] = [join(home.dir, 'mine'), () => Promise.resolve('hf_kept ')]
    const secret = () => Promise.resolve({ value: 'hf_secret', from: 'Secret ns/hub' })
    const env = { HF_TOKEN: 'hf_env', HUGGING_FACE_HUB_TOKEN: 'hf_old' }
    const of = async (sources: Partial<Parameters<typeof hubToken>[0]>) =>
      hubToken({ env: {}, home: home.dir, ...sources })
    expect([
      await of({ secret, hubTokenFile, env }),
      await of({ hubTokenFile, env }),
      await of({ hubTokenFile, keptHubToken, env }),
      await of({ keptHubToken, env }),
      await of({ keptHubToken: () => Promise.resolve(undefined), env }),
      await of({ env: { HF_TOKEN: '', HUGGING_FACE_HUB_TOKEN: 'hf_old' } }),
      await of({}),
      await of({ env: { HF_TOKEN_PATH: join(home.dir, 'other') } }),
      await of({ env: { HF_HOME: join(home.dir, 'none') } }),
    ]).toEqual([
      { value: 'hf_secret', from: 'Secret ns/hub' },
      { value: 'hf_set', from: 'the setting hubTokenFile' },
      { value: 'hf_set', from: 'the setting hubTokenFile' },
      { value: 'hf_kept', from: 'the settings of the app' },
      { value: 'hf_env', from: 'HF_TOKEN' },
      { value: 'hf_old', from: 'HUGGING_FACE_HUB_TOKEN' },
      { value: 'hf_file', from: standard },
      { value: 'hf_other', from: join(home.dir, 'other') },
      undefined,
    ])
  })

  test('is not looked for elsewhere when its Secret cannot be used', async () => {
    const secret = () => Promise.reject(secretMissing('ns', 'hub', 'hf://a/b'))
    await expect(hubToken({ secret, env: { HF_TOKEN: 'hf_env' }, home: '/none' })).rejects.toMatchObject({
      reason: 'SecretMissing',
    })
  })

  test('in a Secret is missing or forbidden where the cluster decides so, and else cannot be read at the moment', async () => {
    const reasonFor = (code: number | undefined) =>
      failure(secretIn({ get: () => Promise.reject(new ApiError('no', { code })) }, 'ns', 'hub', 'hf://a/b'))
    const reasons = (await Promise.all([404, 403, 401, 503, undefined].map(reasonFor))).map(({ reason }) => reason)
    expect(reasons).toEqual(['SecretMissing', 'SecretUnreadable', 'SecretUnread', 'SecretUnread', 'SecretUnread'])
  })

  test('with a line break is refused and not shown', async () => {
    const refused = hubToken({ env: { HF_TOKEN: 'hf_a\r\nX-Evil: 1' }, home: '/none' })
    await expect(refused).rejects.toThrow(
      'The Hugging Face token from HF_TOKEN is not valid: it has spaces or other characters that no token has, so replace it.',
    )
  })

  test.skipIf(process.getuid?.() === 0)('in a file that may not be read is refused by the path', async () => {
    await using home = await temporaryFolder()
    const path = join(home.dir, 'token')
    await writeFile(path, 'hf_file')
    await chmod(path, 0)
    await expect(hubToken({ env: { HF_TOKEN_PATH: path }, home: home.dir })).rejects.toThrow(path)
  })

  test('in a Secret is found under the usual keys, and its absence says where to put it', () => {
    const secret = { namespace: 'ns', name: 'hub' }
    expect(tokenOfSecret({ ...secret, values: { AWS_REGION: 'x', token: 'hf_a\n' } })).toEqual({
      value: 'hf_a',
      from: 'Secret ns/hub',
    })
    expect(() => tokenOfSecret({ ...secret, values: { AWS_SECRET_ACCESS_KEY: 'x' } })).toThrow(
      'Secret ns/hub, which spec.sourceSecretRef names, has no Hugging Face token (its keys: AWS_SECRET_ACCESS_KEY): put one under the key HF_TOKEN.',
    )
    const values = { token: 'eyJhbGciOiJSUzI1NiJ9' }
    expect(() => tokenOfSecret({ ...secret, values })).toThrow(/label the Secret metalbar.dev\/hub-token=true/)
    expect(tokenOfSecret({ ...secret, isForHub: true, values }).value).toBe(values.token)
    expect([
      secretMissing('ns', 'hub', 'hf://a/b').message,
      secretUnreadable('ns', 'hub', 'forbidden').message,
    ]).toEqual([
      'Secret ns/hub, which spec.sourceSecretRef names, does not exist: create it with the key HF_TOKEN, or remove sourceSecretRef.',
      'Secret ns/hub, which spec.sourceSecretRef names, cannot be read (forbidden): allow this agent to get Secrets in ns, or remove sourceSecretRef.',
    ])
  })

  test('in a Secret that names a Hub is for that one, and a Secret may name a Hub without a token', () => {
    const of = (values: Record<string, string>) => hubOfSecret({ namespace: 'ns', name: 'hub', values })
    const HF_ENDPOINT = 'https://mirror.example/hub/\n'
    expect([
      of({ HF_TOKEN: 'hf_a' }),
      of({ HF_ENDPOINT: ' ' }),
      of({ HF_ENDPOINT, HF_TOKEN: 'hf_a' }),
      of({ HF_ENDPOINT }),
    ]).toEqual([
      undefined,
      undefined,
      { endpoint: 'https://mirror.example/hub', token: { value: 'hf_a', from: 'Secret ns/hub' } },
      { endpoint: 'https://mirror.example/hub', token: undefined },
    ])
    expect(() => of({ HF_ENDPOINT: 'https://me:hf_a@mirror.example' })).toThrow(
      /^HF_ENDPOINT of Secret ns\/hub holds a password, which would get into logs: give the token as HF_TOKEN instead\.$/,
    )
    expect(() => of({ HF_ENDPOINT: 'mirror.example' })).toThrow(/^HF_ENDPOINT of Secret ns\/hub is not an https/)
  })

  test("is sent to the Hub's own hosts, and only over https", () => {
    const token = { value: 'hf_a', from: 'HF_TOKEN' }
    const sent = (endpoint: string, url: string, loopback = false): boolean => {
      const credentials = hubCredentials(endpoint, token, loopback)
      return credentials !== undefined && maySend(credentials, new URL(url))
    }
    const hub = 'https://huggingface.co'
    expect({
      hub: sent(hub, 'https://huggingface.co/api/x'),
      short: sent(hub, 'https://hf.co/x'),
      plain: sent(hub, 'http://huggingface.co/x'),
      port: sent(hub, 'https://huggingface.co:8443/x'),
      cdn: sent(hub, 'https://cdn-lfs.huggingface.co/x'),
      alike: sent(hub, 'https://huggingface.co.evil.example/x'),
      login: sent(hub, 'https://huggingface.co@evil.example/x'),
      mirror: sent('https://mirror.example:444', 'https://mirror.example:444/x'),
      mirrorToHub: sent('https://mirror.example', 'https://huggingface.co/x'),
      loopback: sent('http://127.0.0.1:1', 'http://127.0.0.1:1/x'),
      loopbackInTests: sent('http://127.0.0.1:1', 'http://127.0.0.1:1/x', true),
      otherPortInTests: sent('http://127.0.0.1:1', 'http://127.0.0.1:2/x', true),
      none: hubCredentials(hub, undefined),
    }).toEqual({
      hub: true,
      short: true,
      plain: false,
      port: false,
      cdn: false,
      alike: false,
      login: false,
      mirror: true,
      mirrorToHub: false,
      loopback: false,
      loopbackInTests: true,
      otherPortInTests: false,
      none: undefined,
    })
  })
})

describe('the address of the Hub', () => {
  test('is the setting, else HF_ENDPOINT, else the public one', () => {
    const env = { HF_ENDPOINT: 'https://mirror.example/hf/' }
    expect([
      hubEndpoint(env, 'https://set.example/'),
      hubEndpoint(env),
      hubEndpoint({ HF_ENDPOINT: '' }),
      hubEndpoint({ HF_ENDPOINT: 'mirror' }),
      hubEndpoint({ HF_ENDPOINT: 'https://me:pw@mirror.example' }),
    ]).toEqual([
      { endpoint: 'https://set.example' },
      { endpoint: 'https://mirror.example/hf' },
      { endpoint: 'https://huggingface.co' },
      {
        problem: 'HF_ENDPOINT is not an https:// address: write it as https://huggingface.co, or remove it.',
      },
      {
        problem: 'HF_ENDPOINT holds a password, which would get into logs: give the token as HF_TOKEN instead.',
      },
    ])
  })

  test('is not asked when HF_HUB_OFFLINE is set', () => {
    const values = ['1', 'TRUE', 'yes', 'on', '0', '', 'no'].map((value) => isHubOffline({ HF_HUB_OFFLINE: value }))
    expect([...values, isHubOffline({})]).toEqual([true, true, true, true, false, false, false, false])
  })

  const mirror = 'https://mirror.example/hf'

  test.each([
    [
      'https://huggingface.co/org/repo/resolve/main/sub/x.gguf',
      { repo: 'org/repo', revision: 'main', path: 'sub/x.gguf' },
    ],
    [
      'https://hf.co/org/repo/resolve/refs%2Fpr%2F1/x.gguf?download=true',
      { repo: 'org/repo', revision: 'refs/pr/1', path: 'x.gguf' },
    ],
    ['https://mirror.example/hf/org/repo/resolve/main/x.gguf', { repo: 'org/repo', revision: 'main', path: 'x.gguf' }],
    ['https://huggingface.co/org/repo', { repo: 'org/repo' }],
    ['https://huggingface.co/org/repo/tree/v1/', { repo: 'org/repo', revision: 'v1' }],
    ['https://hf.co/org/_repo:Q4_K_M', { repo: 'org/_repo', quantization: 'Q4_K_M' }],
    [
      'https://huggingface.co/org/repo?show_file_info=sub%2Fx.gguf&library=llama-cpp-python',
      { repo: 'org/repo', path: 'sub/x.gguf', viewer: true },
    ],
    ['https://huggingface.co/org/repo/discussions/3', { repo: 'org/repo' }],
    ['https://huggingface.co/org/repo/commit/0a1b', { repo: 'org/repo', revision: '0a1b' }],
    [
      'https://huggingface.co/org/repo/blame/main/x.gguf',
      { repo: 'org/repo', revision: 'main', path: 'x.gguf', viewer: true },
    ],
    ['https://mirror.example/org/repo/resolve/main/x.gguf', undefined],
    ['http://huggingface.co/org/repo/resolve/main/x.gguf', undefined],
    ['https://huggingface.co/datasets/org/repo/resolve/main/x.gguf', undefined],
    ['https://huggingface.co/org/x.gguf', undefined],
    ['https://host.example/org/repo/resolve/main/x.gguf', undefined],
    ['https://huggingface.co/org/repo/resolve/..%2F..%2Fapi/x.gguf', undefined],
    ['https://huggingface.co/org/repo/resolve/%ZZ/x.gguf', undefined],
  ])('%s', (address, expected) => {
    expect(hubAddressOf(address, mirror)).toEqual(expected === undefined ? undefined : { viewer: false, ...expected })
  })

  test('in any form never names a repository or revision that leaves its place', () => {
    const piece = fc.constantFrom(
      '/',
      'org',
      'repo',
      'resolve',
      'blob',
      'main',
      '..',
      '%2e%2e',
      '%2F',
      '%5C',
      '\\',
      '?',
      '%00',
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const found = hubAddressOf(`https://huggingface.co/org/repo/${pieces.join('')}`, mirror)
        return found === undefined || !/\.\.|[\\\0%]/.test(`${found.repo} ${found.revision ?? ''}`)
      }),
      { numRuns: 2000 },
    )
  })
})
