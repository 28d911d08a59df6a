import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { execa } from 'execa'
import { packageVersion } from '../build-info.ts'
import { checksums } from './archive.ts'
import { packCommand } from './command-archive.ts'
import { buildCommand, buildCommandFor, packagesOfCommand } from './command.ts'
import { checkFiles, checkVersion, filesOf, ReleaseError, stepsOf, type Step } from './release/steps.ts'

/** `node tasks/package/release.ts [STEP]`, all of them without one; `--dry-run` tells what each would do and what this machine lacks for it. */
const root = path.join(import.meta.dirname, '../..')
const version = packageVersion()
const collected = path.join(root, 'out/release')
const say = (text: string): void => void process.stdout.write(`${text}\n`)

const arch = { type: 'string' } as const
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    'dry-run': { type: 'boolean', default: false },
    'check-version': { type: 'string' },
    'build-command': arch,
    'pack-command': arch,
    collect: { type: 'boolean', default: false },
    draft: { type: 'string' },
  },
})

if (values['check-version'] !== undefined) {
  checkVersion(values['check-version'], version, await readFile(path.join(root, 'CHANGELOG.md'), 'utf8'))
} else if (values['build-command'] !== undefined) await buildFor(archNamed(values['build-command']))
else if (values['pack-command'] !== undefined) await packFor(archNamed(values['pack-command']))
else if (values.collect) await collect()
else if (values.draft !== undefined) await draft(values.draft)
else await run(positionals[0])

async function run(only: string | undefined): Promise<void> {
  const steps = stepsOf(version)
  if (only !== undefined && !steps.some(({ name }) => name === only)) {
    throw new ReleaseError(`No such step: ${only}. There are ${steps.map(({ name }) => name).join(', ')}.`)
  }
  for (const step of steps.filter(({ name }) => only === undefined || name === only)) {
    say(`${step.name}: ${step.about}`)
    if (values['dry-run']) tell(step)
    else await carryOut(step)
  }
}

function tell({ needsMac, commands }: Step): void {
  if (needsMac && process.platform !== 'darwin') say('  (only on a Mac)')
  for (const command of commands) say(`  ${command.map(asTyped).join(' ')}`)
  const unset = unsetIn(commands)
  if (unset.length > 0) say(`  not set: ${unset.join(', ')}`)
}

/** As a shell takes it. */
function asTyped(word: string): string {
  return word.includes(' ') ? `'${word}'` : word
}

async function carryOut({ name, needsMac, commands }: Step): Promise<void> {
  if (needsMac && process.platform !== 'darwin') throw new ReleaseError(`Only a Mac can do the step ${name}.`)
  const unset = unsetIn(commands)
  if (unset.length > 0) throw new ReleaseError(`The step ${name} needs ${unset.join(', ')} in the environment.`)
  for (const [program = '', ...args] of commands) {
    const words = args.map((word) => (word.startsWith('$') ? (process.env[word.slice(1)] ?? '') : word))
    await execa(program, words, { cwd: root, stdio: 'inherit', preferLocal: true, localDir: root })
  }
}

function unsetIn(commands: Step['commands']): string[] {
  const variables = commands.flat().filter((word) => word.startsWith('$'))
  return [...new Set(variables.filter((word) => (process.env[word.slice(1)] ?? '') === ''))]
}

function archNamed(text: string): 'arm64' | 'x64' {
  if (text === 'arm64' || text === 'x64') return text
  throw new ReleaseError(`${text} is no processor of a Mac: arm64 or x64.`)
}

/** Node.js of the other kind of Mac; of this one it is the one that runs. */
function nodeFor(wanted: 'arm64' | 'x64'): string {
  if (wanted === process.arch) return process.execPath
  const named = process.env['METALBAR_OTHER_NODE']
  if (named === undefined || named === '') {
    throw new ReleaseError(`METALBAR_OTHER_NODE must name the node ${process.version} of darwin ${wanted}.`)
  }
  return named
}

async function buildFor(wanted: 'arm64' | 'x64'): Promise<void> {
  const node = nodeFor(wanted)
  const output = path.join(root, 'out/package', `metal-agent-darwin-${wanted}`, 'metal-agent')
  await mkdir(path.dirname(output), { recursive: true })
  await (wanted === process.arch ? buildCommand(output) : buildCommandFor(node, output))
}

async function packFor(wanted: 'arm64' | 'x64'): Promise<void> {
  const folder = path.join(root, 'out/package', `metal-agent-darwin-${wanted}`)
  await packCommand(folder, await packagesOfCommand())
}

/** Everything people get, in `out/release`, with its hashes. */
async function collect(): Promise<void> {
  await rm(collected, { recursive: true, force: true })
  await mkdir(collected, { recursive: true })
  const found: string[] = []
  for (const folder of ['out/app', 'out/package']) {
    const names = await readdir(path.join(root, folder))
    for (const name of names.filter((one) => filesOf(version).includes(one) || /e2e/i.test(one))) {
      await copyFile(path.join(root, folder, name), path.join(collected, name))
      found.push(name)
    }
  }
  checkFiles(version, found)
  await writeFile(path.join(collected, 'SHA256SUMS'), await checksums(found.map((name) => path.join(collected, name))))
  for (const name of (await readdir(collected)).sort()) say(name)
}

async function draft(tag: string): Promise<void> {
  const files = (await readdir(collected)).map((name) => path.join(collected, name))
  const notes = ['--notes', `What changed: CHANGELOG.md of ${tag}.`]
  await execa(
    'gh',
    ['release', 'create', tag, '--draft', '--verify-tag', '--title', `Metalbar ${version}`, ...notes, ...files],
    {
      cwd: root,
      stdio: 'inherit',
    },
  )
}
