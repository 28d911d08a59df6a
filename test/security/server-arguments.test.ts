import { access, mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { inferenceServiceSpec, modelSpec } from '../../src/agent-core/kube/resources.ts'
import { isModel, ModelRoots } from '../../src/agent-core/models/local.ts'
import { environmentOf, type SpecPolicy, specRefusal } from '../../src/agent-core/reconcile/runtime-choice.ts'
import { judgeArguments, startProblem } from '../../src/agent-core/runtimes/argument-policy.ts'
import { llamaServerRuntime } from '../../src/agent-core/runtimes/llama-server.ts'
import { flagName, llamaServerFlags, flagsIn } from '../../src/agent-core/runtimes/llama-server-flags.ts'
import { askProgram } from '../../src/agent-core/util/ask-program.ts'
import { launchEnvironment } from '../../src/agent-core/servers/launch.ts'
import { hostileModels, hostileWholeSpecs } from '../support/hostile-specs.ts'
import { useLlamaServer } from '../support/skip.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const roots = ['/store/models', '/lent']
const usual: SpecPolicy = { allowsUnsafe: false, allowedEnv: [], modelRoots: roots }
const unsafe: SpecPolicy = { ...usual, allowsUnsafe: true }
const { flags } = llamaServerRuntime
const judged = (...args: string[]) => judgeArguments(args, usual, flags)

describe('the flags of the installed llama-server', () => {
  const llamaServer = useLlamaServer()

  test('each has a judgement: one that a newer build brings is refused until somebody has looked at it', async () => {
    const question = { command: llamaServer, args: ['--help'], env: launchEnvironment(), timeLimitMs: 60_000 }
    const { stdout, stderr } = await askProgram(question)
    const flags = [...flagsIn(`${stdout}\n${stderr}`)]
    expect(flags.length).toBeGreaterThan(200)
    expect(flags.filter((flag) => !llamaServerFlags.has(flag))).toEqual([])
  })
})

test.each([
  ['a shell command', ['--mcp-servers-json', '{"mcpServers":{"x":{"command":"sh"}}}'], true],
  ['a file of shell commands', ['--mcp-servers-config', '/store/models/x.json'], true],
  ['a shell for everybody', ['--tools', 'all'], true],
  ['the same, spelled otherwise', ['--agent'], true],
  ['programs out of a folder', ['--video-ffmpeg-dir', '/store/models/x'], true],
  ['the memory of another machine', ['--rpc', '192.0.2.1:50052'], true],
  ['requests to other servers', ['--ui-mcp-proxy'], false],
  ['the files of the person', ['--path', '/home/person'], false],
  ['media files', ['--media-path', '/'], false],
  ['a file written anywhere', ['--log-file', '/home/person/.bashrc'], false],
  ['prompts written anywhere', ['--log-prompts-dir', '/tmp/x'], false],
  ['caches written anywhere', ['--slot-save-path', '/tmp'], false],
  ['a cache written into the store', ['--lookup-cache-dynamic', '/store/models/a'], false],
  ['a download past the agent', ['--hf-repo', 'owner/name'], false],
  ['another', ['--model-url', 'https://example.test/m.gguf'], false],
  ['a third', ['-hf', 'owner/name'], false],
  ['models of its own', ['--models-dir', '/store/models'], false],
  ['a file of keys', ['--api-key-file', '/home/person/.ssh/id_ed25519'], false],
  ['a key file', ['--ssl-key-file', '/home/person/.ssh/id_ed25519'], false],
  ['a template outside the roots', ['--chat-template-file', '/home/person/notes'], false],
  ['a grammar outside the roots', ['--grammar-file', '/etc/passwd'], false],
  ['a lent file that is no model', ['--chat-template-file', '/lent/notes.txt'], false],
  ['an adapter outside the roots', ['--lora', '/store/models/a.gguf,/home/person/b.gguf'], false],
  ['a scaled one', ['--lora-scaled', '/etc/passwd:0.5'], false],
  ['a way out of the roots', ['--mmproj', '/store/models/../../etc/passwd'], false],
  ['a way that a link could lead out of them', ['--mmproj', '/store/models/link/../x.gguf'], false],
  ['a relative path', ['--mmproj', 'x.gguf'], false],
  ['a neighbour of a root', ['--mmproj', '/store/models-of-others/x.gguf'], false],
  ['underscores', ['--mcp_servers_json', '{}'], true],
  ['an equals sign', ['--tools=all'], true],
  ['both', ['--log_file=/tmp/x'], false],
  ['an abbreviation', ['--mcp-servers'], false],
  ['a flag behind a harmless one', ['--seed', '1', '--tools', 'all'], true],
  ['a harmless one again, then another', ['--seed', '1', '--seed', '2', '--log-file', '/x'], false],
  ['a flag in place of a value', ['--chat-template', '--tools', 'all'], true],
  ['a value without a flag', ['all'], false],
  ['a flag with its value in one', ['--seed 1'], false],
  ['a value that is missing', ['--seed'], false],
  ['no number', ['--seed', '--metrics'], false],
  ['a value for a switch', ['--jinja=1'], false],
  ['a flag that nobody knows', ['--brand-new', 'x'], false],
  ['the end of all flags', ['--'], false],
  ['prompts of others', ['--slots'], false],
  ['pages in a browser', ['--cors-origins', '*'], false],
  ['a machine that does nothing else', ['--prio', '3'], false],
])('%s is refused with the flag, why, and what allows it', (_, args, loadsCode) => {
  const refusal = judgeArguments(args, usual, flags)
  expect(refusal).toMatchObject({ loadsCode })
  expect(refusal?.message).toMatch(
    /^spec\.extraArgs: \S.* is refused: .+\. Remove it, or allow it on this machine with --allow-unsafe-extra-args\.$/,
  )
  expect(judgeArguments(args, unsafe, flags)).toBeUndefined()
})

test.each([[['--host', '0.0.0.0']], [['--port=1']], [['--reuse-port']], [['-m', '/x']], [['--model', '/x']]])(
  '%j is refused whatever a person allowed',
  (args) => {
    const message: unknown = expect.stringMatching(/ is refused: the agent .+\. Remove it\.$/)
    expect([judgeArguments(args, usual, flags), judgeArguments(args, unsafe, flags)]).toMatchObject([
      { message },
      { message },
    ])
  },
)

test.each([
  [['--cache-ram', '64', '--threads-http', '1', '-np', '2']],
  [['--flash-attn', 'on', '--cache_type_k', 'q8_0', '--no-mmap']],
  [['--temp=0.2', '--seed', '-1', '--reasoning-budget', '-1']],
  [['--lora', '/store/models/a.gguf,/lent/b.gguf', '--lora-scaled', '/lent/b.gguf:-0.5']],
  [['--chat-template', 'chatml', '--override-tensor', 'exps=CPU']],
  [['--control-vector-layer-range', '1', '10', '--no-slots', '--grammar', 'root ::= "a"']],
  [[]],
])('%j is passed on', (args) => {
  expect(judged(...args)).toBeUndefined()
})

test('a typed field cannot become another flag', () => {
  const fields = [
    { cacheTypeK: '--tools' },
    { cacheTypeCustomV: '-hf' },
    { reasoningBudget: 1, reasoningBudgetMessage: '--tools' },
    { tensorOverrides: ['--tools'] },
    { metadataOverrides: ['a=int:1', '--mcp-servers-json'] },
  ]
  const reasons = fields.map((spec) => specRefusal(inferenceServiceSpec.parse(spec), usual)?.reason)
  expect(reasons).toEqual(fields.map(() => 'Refused'))
})

test('a file is judged where its links lead, and a flag by what the installed binary knows', async () => {
  await using folder = await temporaryFolder()
  const store = join(folder.dir, 'store')
  await mkdir(store)
  await writeFile(join(folder.dir, 'secret'), 'x')
  await writeFile(join(store, 'adapter.gguf'), 'GGUF\u0003\0\0\0')
  await writeFile(join(store, 'notes.gguf'), 'dear diary')
  await symlink(join(folder.dir, 'secret'), join(store, 'link.gguf'))
  await access(join(store, 'link.gguf'))
  const models = new ModelRoots({
    store: { directory: store, isOpen: () => Promise.resolve(true) },
    roots: [],
    home: folder.dir,
  })
  const policy = { allowsUnsafe: false, modelRoots: [store] }
  const look = (args: string[], known: string[] | undefined) =>
    startProblem(args, {
      policy,
      flags,
      executable: '/bin/llama-server',
      known: known && new Set(known),
      allowsFile: async (path) => (await models.allows(path, 'default')) && (await isModel(path)),
    })
  expect(judgeArguments(['--lora', join(store, 'link.gguf')], policy, flags)).toBeUndefined()
  expect([
    await look(['--lora', join(store, 'adapter.gguf')], ['--lora']),
    await look(['--lora', join(store, 'link.gguf')], ['--lora']),
    await look(['--lora', join(store, 'notes.gguf')], ['--lora']),
    await look(['--seed', '1'], ['--lora']),
    await look(['--seed', '1'], undefined),
    await look([], undefined),
  ]).toEqual([
    undefined,
    'spec.extraArgs: --lora is refused: its file is not a model in the model store or an allowed model root.',
    'spec.extraArgs: --lora is refused: its file is not a model in the model store or an allowed model root.',
    'spec.extraArgs: --seed is refused: /bin/llama-server does not know it. Remove it, or install another version of llama.cpp.',
    'spec.extraArgs cannot be checked, because /bin/llama-server does not answer --help. Install llama.cpp again, or remove them.',
    undefined,
  ])
})

const runs = 12_000

test(`of ${runs} random specs none that passes has a flag that runs programs, binds elsewhere or reaches a file outside the roots`, () => {
  let passed = 0
  fc.assert(
    fc.property(hostileWholeSpecs('/store/models'), hostileModels('/store/models'), (raw, rawModel) => {
      const parsed = inferenceServiceSpec.safeParse(raw)
      const model = modelSpec.safeParse(rawModel).data
      if (!parsed.success || model === undefined || specRefusal(parsed.data, usual) !== undefined) return
      passed += 1
      const place = { modelPath: '/store/models/m.gguf', port: 8080, performanceCores: 4 }
      const argv = llamaServerRuntime.argv({ spec: parsed.data, model, ...place })
      expect(dangersIn(argv)).toEqual([])
      expect(Object.keys(environmentOf(parsed.data, [])).filter((name) => name !== 'OMP_NUM_THREADS')).toEqual([])
    }),
    { numRuns: runs, seed: 13 },
  )
  // Otherwise nothing was proven.
  expect(passed).toBeGreaterThan(runs / 20)
})

/** An oracle of its own: a plain search through the finished command line, in which only our own flags may lead outside. */
function dangersIn(argv: readonly string[]): string[] {
  return argv.flatMap((argument, at) => {
    const [name = '', joined] = argument.split(/=(.*)/s)
    const flag = flagName(name)
    const isOurs = (flag === '--host' || flag === '--port' || flag === '--model') && at < 6
    if (isOurs) return []
    if (dangerous.test(flag)) return [argument]
    if (!opensFiles.test(flag)) return []
    const files = (joined ?? argv[at + 1] ?? '').split(',').map((file) => file.replace(/:[^:]*$/, ''))
    return files.filter((file) => !/^\/(store\/models|lent)\/./.test(file) || file.includes('..'))
  })
}

const dangerous =
  /^(--mcp|--tools|--agent$|-ag$|--rpc|--video-ffmpeg|--path$|--media-path|--log-file|--log-prompts|--slot-save|--hf|-hf|--model-url|-mu$|--docker|-dr$|--mmproj-url|-mmu$|--ssl|--api-key|--models-|--host$|--port$|--reuse-port|-m$|--model$|--ui-mcp|--webui-mcp|--cors)/
/** What `--help` gives the hint FNAME, FILE or PATH. */
const opensFiles =
  /^(--lora|--lora-scaled|--control-vector|--control-vector-scaled|-mm|--mmproj|--spec-draft-model|-md|--model-draft|--chat-template-file|--grammar-file|-jf|--json-schema-file|-lcs|--lookup-cache-static|-lcd|--lookup-cache-dynamic|--ui-config-file|--webui-config-file)$/
