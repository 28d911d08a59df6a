import { mkdir, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import {
  inferenceServiceSpec,
  modelSpec,
  parseInferenceService,
  parseModel,
} from '../../../src/agent-core/kube/resources.ts'
import { chooseDraft, type DraftChoice } from '../../../src/agent-core/reconcile/draft.ts'
import { contentKey, serverFiles } from '../../../src/agent-core/reconcile/model-request.ts'
import { chooseRuntime, leftOutNotice } from '../../../src/agent-core/reconcile/runtime-choice.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const metadata = (name: string) => ({ name, namespace: 'ns', uid: name, resourceVersion: '1' })
const model = modelSpec.parse({ source: 'hf://org/repo', files: ['m.gguf', 'deep/d.gguf', 'notes.txt', '../d.gguf'] })
const small = { source: 'https://files.example/small.gguf' }
const service = (speculativeDecoding: object, more: object = {}) =>
  parseInferenceService({ metadata: metadata('chat'), spec: { modelRef: 'm', speculativeDecoding, ...more } })

interface Facts {
  readonly runtime?: 'llama-server' | 'mlx-lm'
  readonly extraArgs?: readonly string[]
  /** The spec of the Model `small`. */
  readonly found?: object
}

const choose = (
  speculativeDecoding: object,
  { runtime = 'llama-server', extraArgs = [], found = small }: Facts = {},
): DraftChoice => {
  const asked = service(speculativeDecoding, { extraArgs })
  return chooseDraft({
    ...{ runtime, service: asked, spec: asked.spec.value, model },
    modelNamed: (name) => (name === 'small' ? parseModel({ metadata: metadata(name), spec: found }) : undefined),
  })
}

const none = { kind: 'none' }

test.each<[string, object, Facts, object]>([
  ['a file of the Model', { type: 'draft', draftModel: 'deep/d.gguf' }, {}, { draft: { file: 'deep/d.gguf' } }],
  ['a Model of the namespace', { type: 'mtp', draftModelRef: 'small' }, {}, { draft: { model: 'small', spec: small } }],
  ['nothing by another runtime', { type: 'draft', draftModelRef: 'small' }, { runtime: 'mlx-lm' }, none],
  ['nothing, where the type needs nothing', { type: 'draft-mtp' }, {}, none],
  ['nothing to draft from what was said', { type: 'ngram-mod', draftModelRef: 'small' }, {}, none],
  ['nothing by a type that is not known', { type: 'constructor', draftModelRef: 'small' }, {}, none],
  [
    'nothing where extraArgs say how',
    { type: 'draft', draftModelRef: 'small' },
    { extraArgs: ['--spec-type=none'] },
    none,
  ],
  [
    'nothing where extraArgs name it',
    { type: 'draft', draftModelRef: 'small' },
    { extraArgs: ['-md', '/d.gguf'] },
    none,
  ],
])('drafts with %s', (_what, field, how, expected) => {
  expect(choose(field, how)).toMatchObject(expected)
})

test.each<[string, object, object, DraftChoice['kind'], RegExp]>([
  [
    'a Model that is not there',
    { draftModelRef: 'other' },
    small,
    'missing',
    /^There is no Model "other" in namespace ns, the draft model that .*create it/,
  ],
  [
    'one of another namespace',
    { draftModelRef: '../other/small' },
    small,
    'missing',
    /^There is no Model "..\/other\/small"/,
  ],
  [
    'one that cannot be read',
    { draftModelRef: 'small' },
    { source: 5 },
    'unreadable',
    /^Model ns\/small is not usable: spec.source.*draft model of this service/,
  ],
  [
    'one without a source',
    { draftModelRef: 'small' },
    {},
    'refused',
    /^Model ns\/small, the draft model .* has no spec.source/,
  ],
  [
    'one of MLX',
    { draftModelRef: 'small' },
    { ...small, format: 'mlx' },
    'refused',
    /^Model ns\/small, .* is of format "mlx"/,
  ],
  [
    'a file that the Model does not list',
    { draftModel: 'd.gguf' },
    small,
    'refused',
    /names "d.gguf", which is not among spec.files/,
  ],
  ['a path out of the folder', { draftModel: '../../etc/passwd' }, small, 'refused', /not among spec.files/],
  ['the model itself', { draftModel: 'm.gguf' }, small, 'refused', /the first of spec.files/],
  ['a file that is no GGUF', { draftModel: 'notes.txt' }, small, 'refused', /only with \.gguf files/],
])('does not draft with %s, and says so', (_what, field, found, kind, message) => {
  expect(choose({ type: 'draft', ...field }, { found })).toMatchObject({
    kind,
    message: expect.stringMatching(message) as string,
  })
})

const decide = (speculativeDecoding: object, found: object = small, files: readonly string[] = model.files) => {
  const asked = service(speculativeDecoding)
  return chooseRuntime({
    ...{ defaultRuntime: undefined, performanceCores: undefined },
    policy: { allowsUnsafe: false, modelRoots: [], allowedEnv: [] },
  })(
    asked,
    asked.spec.value,
    { ...model, files: [...files] },
    {
      modelNamed: (name) => parseModel({ metadata: metadata(name), spec: found }),
    },
  )
}
const digestOf = (...of: Parameters<typeof decide>): string => {
  const choice = decide(...of)
  return choice.ok ? choice.digest : choice.message
}

test('another draft, another content of it or another number is another server; where it is listed alone is not', () => {
  const digests = [
    digestOf({ type: 'none' }),
    digestOf({ type: 'draft', draftModelRef: 'small' }),
    digestOf({ type: 'draft', draftModelRef: 'small' }, { source: 'https://files.example/other.gguf' }),
    digestOf({ type: 'draft', draftModelRef: 'small' }, { ...small, sha256: 'a'.repeat(64) }),
    digestOf({ type: 'draft', draftModelRef: 'small', nDraftMax: 4 }),
    digestOf({ type: 'draft', draftModel: 'deep/d.gguf' }),
    digestOf({ type: 'draft', draftModel: '../d.gguf' }),
  ]
  expect(new Set(digests).size).toBe(digests.length)
  expect(digestOf({ type: 'draft', draftModelRef: 'namesake' })).toBe(digests[1])
  expect(decide({ type: 'draft', draftModelRef: 'small' })).toMatchObject({ draft: { model: 'small' } })
})

test('a draft is part of what is fetched', () => {
  const draft = { model: 'small', spec: modelSpec.parse(small) }
  const keys = [undefined, draft, { ...draft, model: 'other' }, { file: 'small' }].map((one) => contentKey(model, one))
  expect(new Set(keys).size).toBe(keys.length)
})

test('draft weights that are named twice are refused, and a server that runs is left alone', () => {
  const choice = decide({ type: 'draft', draftModelRef: 'small', draftModel: 'deep/d.gguf' })
  expect(choice).toMatchObject({ ok: false, reason: 'Refused', loadsCode: false })
  expect(choice).toMatchObject({ message: expect.stringMatching(/names draft weights twice/) as string })
})

test.each([
  ['a name of 300 characters', { type: 'draft', draftModelRef: 'x'.repeat(300) }],
  ['a number as a name', { type: 'draft', draftModelRef: 5 }],
  ['a line break', { type: 'draft', draftModel: 'a\nb.gguf' }],
  ['a probability of 7', { type: 'ngram-mod', pMin: 7 }],
  ['a list', ['draft']],
])('with %s the service runs without, and says so', (_what, speculativeDecoding) => {
  const spec = inferenceServiceSpec.parse({ speculativeDecoding })
  expect(leftOutNotice(spec, [])).toBe(
    'It runs without spec.speculativeDecoding, which cannot be read: correct it. Its answers are the same, only slower.',
  )
})

test('the file that draftModel names is found where the store keeps it, and is no part of the size of the model', async () => {
  await using folder = await temporaryFolder()
  const paths = ['m.gguf', 'deep/d.gguf', 'd.gguf', 'flat.gguf'].map((name) => join(folder.dir, name))
  for (const path of paths) {
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, basename(path))
  }
  const [path = ''] = paths
  const brought = { model: { path, files: paths, sizeBytes: 100, revision: 'r' }, draft: undefined }
  const found = async (name: string) => (await serverFiles(brought, name)).draft?.slice(folder.dir.length + 1)
  expect(await Promise.all(['d.gguf', 'deep/d.gguf', 'elsewhere/flat.gguf'].map(found))).toEqual([
    ...['d.gguf', 'deep/d.gguf', 'flat.gguf'],
  ])
  expect(await serverFiles(brought, 'd.gguf')).toEqual({
    ...{ path, sizeBytes: 100 - 'd.gguf'.length, revision: 'r', files: paths, draft: join(folder.dir, 'd.gguf') },
  })
  await expect(serverFiles(brought, 'none.gguf')).rejects.toThrow('"none.gguf" of spec.speculativeDecoding.draftModel')
  const draft = { path: '/d.gguf', files: ['/d.gguf'], sizeBytes: 5, revision: 's' }
  expect(await serverFiles({ ...brought, draft }, undefined)).toEqual({
    ...{ path, files: [...paths, '/d.gguf'], sizeBytes: 100, revision: 'r', draft: '/d.gguf' },
  })
  expect(await serverFiles(brought, undefined)).toEqual(brought.model)
})
