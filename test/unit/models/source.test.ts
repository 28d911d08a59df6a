import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { defaultModelStore } from '../../../src/agent-core/models/default-store.ts'
import {
  goAgentFileName,
  modelFileName,
  ollamaNameOf,
  parseModelSource,
  shownSource,
  sourceDigest,
} from '../../../src/agent-core/models/source.ts'

describe('a source that can be used', () => {
  test.each([
    ['https://host/dir/x.gguf?download=true#top', { kind: 'http', url: 'https://host/dir/x.gguf?download=true' }],
    ['HTTP://Host/x.gguf', { kind: 'http', url: 'http://host/x.gguf' }],
    ['/models/My Model%20.gguf', { kind: 'local', path: '/models/My Model%20.gguf' }],
    ['file:///models/My%20Model.gguf', { kind: 'local', path: '/models/My Model.gguf' }],
    ['file://localhost/models/x.gguf', { kind: 'local', path: '/models/x.gguf' }],
    ['hf://org/repo', { kind: 'hub', repo: 'org/repo' }],
    ['org/repo', { kind: 'hub', repo: 'org/repo' }],
    ['org/repo/sub/x.gguf', { kind: 'hub', repo: 'org/repo', path: 'sub/x.gguf' }],
    ['HF://org/repo/x.gguf@v1.0', { kind: 'hub', repo: 'org/repo', path: 'x.gguf', revision: 'v1.0' }],
    [
      'hf://org/repo@refs/pr/3/sub/x.gguf',
      { kind: 'hub', repo: 'org/repo', path: 'sub/x.gguf', revision: 'refs/pr/3' },
    ],
    ['hf://org/repo/sub/@feature/new', { kind: 'hub', repo: 'org/repo', path: 'sub', revision: 'feature/new' }],
    ['hf://models/org/repo/x.gguf', { kind: 'hub', repo: 'org/repo', path: 'x.gguf' }],
    ['hf://org/repo@refs%2Fpr%2F3/x.gguf', { kind: 'hub', repo: 'org/repo', path: 'x.gguf', revision: 'refs/pr/3' }],
    ['hf.co/org/repo:Q4_K_M', { kind: 'http', url: 'https://hf.co/org/repo:Q4_K_M' }],
    ['hf://huggingface.co/org/repo', { kind: 'http', url: 'https://huggingface.co/org/repo' }],
    ['hf://org/repo:Q8_0@main', { kind: 'hub', repo: 'org/repo', quantization: 'Q8_0', revision: 'main' }],
  ])('%s', (source, expected) => {
    expect(parseModelSource(source)).toEqual(expected)
  })
})

describe('a source that cannot be used says what it is and what to use instead', () => {
  test.each([
    [
      'hf://org',
      'hf',
      'hf://org does not name a Hugging Face repository: write it as hf://owner/name, hf://owner/name/file.gguf or hf://owner/name@revision.',
    ],
    [
      'hf://../repo/x.gguf',
      'hf',
      'hf://../repo/x.gguf does not name a Hugging Face repository: write it as hf://owner/name, hf://owner/name/file.gguf or hf://owner/name@revision.',
    ],
    [
      'hf://org/repo/x.gguf@../../main',
      'hf',
      'hf://org/repo/x.gguf@../../main has no valid revision after the @: write it as hf://owner/name, hf://owner/name/file.gguf or hf://owner/name@revision.',
    ],
    [
      'hf://datasets/org/data',
      'hf',
      'hf://datasets/org/data is not in a model repository of the Hub but in one of its datasets: give a model repository, as hf://owner/name.',
    ],
    [
      's3://bucket',
      's3',
      's3://bucket does not name an object of S3: write it as s3://bucket/path/file.gguf, without . and .. in its path, and without a query.',
    ],
    [
      's3://bucket/a/../../other/x.gguf',
      's3',
      's3://bucket/a/../../other/x.gguf does not name an object of S3: write it as s3://bucket/path/file.gguf, without . and .. in its path, and without a query.',
    ],
    [
      's3://key:secret@bucket/x.gguf?X-Amz-Signature=secret',
      's3',
      's3://bucket/x.gguf does not name an object of S3: write it as s3://bucket/path/file.gguf, without . and .. in its path, and without a query.',
    ],
    [
      'pvc://claim/x.gguf',
      'pvc',
      'pvc://claim/x.gguf is a volume inside the cluster, which this machine cannot mount: give an https:// address, or copy the file to this machine and give its absolute path.',
    ],
    [
      'ftp://me:secret@host/x.gguf',
      'ftp',
      "ftp://host/x.gguf uses the scheme ftp://, which this agent does not know: give an https:// address, a Hugging Face repository (hf://owner/name), a tag of Ollama's library (ollama://name:tag), an object of S3 (s3://bucket/file.gguf) or an absolute path.",
    ],
    [
      'file://mac/models/x.gguf',
      'file',
      'file://mac/models/x.gguf names the machine mac: file addresses have three slashes, as in file:///path/file.gguf.',
    ],
    [
      'file:///models/a%2Fb.gguf',
      'file',
      'file:///models/a%2Fb.gguf is not a path that can be decoded: write a % in it as %25, and no %2F.',
    ],
    ['https://', 'https', 'https:// is not a valid address: write it as https://host/path/file.gguf.'],
    [
      'x.gguf',
      '',
      'x.gguf is neither an address nor an absolute path: give an https:// address, a Hugging Face repository (owner/name), or a path that begins with /.',
    ],
    [
      '',
      '',
      'The Model has no spec.source: give an https:// address, a Hugging Face repository (hf://owner/name) or an absolute path.',
    ],
    ['/models/\0', '', 'spec.source contains a control character: remove it.'],
  ])('%j', (source, scheme, message) => {
    expect(parseModelSource(source)).toEqual({ kind: 'unsupported', scheme, message })
  })
})

test('any text is understood or refused with one sentence, never with an exception', () => {
  const scheme = fc.constantFrom('', 'http://', 'https://', 'file://', 'hf://', 's3://', '/')
  fc.assert(
    fc.property(scheme, fc.string({ unit: 'binary' }), (prefix, rest) => {
      const parsed = parseModelSource(prefix + rest)
      return parsed.kind !== 'unsupported' || /^\S.*[.]$/su.test(parsed.message)
    }),
  )
})

test('what a source names on the Hub can always stand in an address', () => {
  const piece = fc.constantFrom(
    'org',
    'repo',
    '/',
    '@',
    ':',
    '..',
    '.',
    '%2e',
    '\\',
    ' ',
    '#',
    '?',
    'Q4_K_M',
    'refs/pr/1',
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const parsed = parseModelSource(`hf://${pieces.join('')}`)
      if (parsed.kind !== 'hub') return parsed.kind === 'unsupported'
      const { repo, revision = 'main' } = parsed
      return (
        /^\w[\w.-]*\/\w[\w.-]*$/.test(repo) &&
        !`${repo}/${revision}`.includes('..') &&
        !/[\\ %#?]/.test(repo + revision)
      )
    }),
    { numRuns: 2000 },
  )
})

test('a query stays out of our file name, and in the one the Go agent gives', () => {
  const names = (source: string): unknown => [modelFileName(source), goAgentFileName(source)]
  expect({
    plain: names('https://host/dir/x.gguf'),
    query: names('https://host/dir/x.gguf?download=true'),
    slashInQuery: names('https://host/dir/x.gguf?path=a/b.gguf'),
    encoded: names('https://host/My%20Model.gguf'),
    repository: names('hf://org/repo'),
  }).toEqual({
    plain: ['x.gguf', 'x.gguf'],
    query: ['x.gguf', 'x.gguf?download=true'],
    slashInQuery: ['x.gguf', 'b.gguf'],
    encoded: ['My%20Model.gguf', 'My%20Model.gguf'],
    repository: ['repo', 'repo'],
  })
})

test.each([
  'https://host/..',
  'https://host/x.gguf.partial',
  'https://host/x.gguf.METALBAR.json',
  'https://host/0123456789abcdef',
])('a name that could be taken for something else in the store is replaced (%s)', (source) => {
  const digest = sourceDigest(source).slice(0, 16)
  expect([modelFileName(source), goAgentFileName(source)]).toEqual([`model-${digest}`, undefined])
})

test('credentials, query and fragment are not shown', () => {
  expect(shownSource('https://me:p@ss@host/x.gguf?token=secret#part')).toBe('https://host/x.gguf')
})

test('sources differ by their query, not by their fragment', () => {
  const [plain, fragment, query] = ['', '#a', '?v=2'].map((end) => sourceDigest(`https://host/x.gguf${end}`))
  expect([fragment === plain, query === plain]).toEqual([true, false])
})

test('models are kept where a reboot does not wipe them', () => {
  expect([
    defaultModelStore('darwin', { XDG_DATA_HOME: '/data' }, '/Users/me'),
    defaultModelStore('linux', {}, '/home/me'),
    defaultModelStore('linux', { XDG_DATA_HOME: '/data' }, '/home/me'),
    defaultModelStore('linux', { XDG_DATA_HOME: 'relative' }, '/home/me'),
  ]).toEqual([
    '/Users/me/Library/Application Support/Metalbar/models',
    '/home/me/.local/share/metalbar/models',
    '/data/metalbar/models',
    '/home/me/.local/share/metalbar/models',
  ])
})

test.each([
  ['ollama://llama3.2', 'registry.ollama.ai/library/llama3.2:latest'],
  ['ollama://Llama3.2:3B', 'registry.ollama.ai/library/llama3.2:3b'],
  ['OLLAMA://me/my_model:q4', 'registry.ollama.ai/me/my_model:q4'],
  ['ollama://hf.co/owner/Name:Q4_K_M', 'hf.co/owner/name:q4_k_m'],
  ['ollama://registry.lan:5000/me/model', 'registry.lan:5000/me/model:latest'],
])('%s is the tag %s', (source, name) => {
  const parsed = parseModelSource(source)
  expect(parsed.kind === 'ollama' && ollamaNameOf(parsed)).toBe(name)
})

test.each([
  'ollama://',
  'ollama://../x',
  'ollama://a/b/c/d',
  'ollama://a:b:c',
  'ollama://a b',
  'ollama://u:p@h/a/b',
  'ollama://a?x',
])('%s names nothing of Ollama', (source) => {
  expect(parseModelSource(source)).toMatchObject({ kind: 'unsupported', scheme: 'ollama' })
})
