import { chmod, copyFile, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { execa } from 'execa'
import { build } from 'vite'
import { z } from 'zod'
import { bundledPackages } from './bundled-packages.ts'
import { noticesOfPackages } from './notices.ts'

const root = path.join(import.meta.dirname, '../..')

/** Of the repository's own package.json, which stays private: npm refuses to publish from a clone. */
const repository = z.object({
  name: z.string(),
  version: z.string(),
  description: z.string(),
  license: z.string(),
  engines: z.object({ node: z.string() }),
})

const launcher = 'bin/metal-agent'

/** What the package says of itself. Everything that runs is bundled, so that it has no dependencies and runs no script when it is installed. */
const manifestOf = ({ name, version, description, license, engines }: z.infer<typeof repository>) => ({
  name,
  version,
  description,
  license,
  type: 'module',
  engines,
  os: ['darwin', 'linux'],
  // The second is what LLMKube calls its own agent.
  bin: { 'metal-agent': launcher, 'llmkube-metal-agent': launcher },
})

/** Builds the npm package of the command into `folder`; answers the tarball, which installs without a network. */
export async function buildNpmPackage(folder: string): Promise<string> {
  const staged = await mkdtemp(path.join(tmpdir(), 'metalbar-npm-'))
  try {
    await stage(staged)
    await mkdir(folder, { recursive: true })
    const args = ['pack', '--json', '--offline', '--ignore-scripts', '--pack-destination', path.resolve(folder)]
    const { stdout } = await execa('npm', args, { cwd: staged, preferLocal: true, localDir: root })
    const [{ filename }] = packed.parse(JSON.parse(stdout))
    return path.join(folder, filename)
  } finally {
    await rm(staged, { recursive: true, force: true })
  }
}

/** What npm prints of the one tarball. */
const packed = z.tuple([z.object({ filename: z.string() })])

async function stage(staged: string): Promise<void> {
  const licences = {
    cli: path.join(staged, 'cli.licences.json'),
    renderer: path.join(staged, 'renderer.licences.json'),
  }
  for (const part of ['cli', 'renderer'] as const) {
    const configFile = path.join(root, part === 'cli' ? 'vite.config.ts' : 'vite.renderer.config.ts')
    const outDir = path.join(staged, 'out', part)
    const license = { fileName: path.basename(licences[part]) }
    // As in command-bundle.ts: what there is to say `make build` says.
    await build({ configFile, logLevel: 'error', build: { outDir, emptyOutDir: true, license, sourcemap: false } })
    await rename(path.join(outDir, license.fileName), licences[part])
  }
  const packages = await bundledPackages(Object.values(licences))
  for (const file of Object.values(licences)) await rm(file)
  await writeFile(path.join(staged, 'THIRD_PARTY_NOTICES'), noticesOfPackages(packages))
  await mkdir(path.join(staged, 'bin'))
  await copyFile(path.join(root, launcher), path.join(staged, launcher))
  await chmod(path.join(staged, launcher), 0o755)
  await copyFile(path.join(root, 'LICENSE'), path.join(staged, 'LICENSE'))
  const own = repository.parse(JSON.parse(await readFile(path.join(root, 'package.json'), 'utf8')))
  await writeFile(path.join(staged, 'package.json'), `${JSON.stringify(manifestOf(own), null, 2)}\n`)
  await writeFile(path.join(staged, 'README.md'), readme(own.engines.node))
}

const readme = (node: string): string => `# metal-agent

Makes a Mac with Apple silicon a Kubernetes inference node: the agent of Metalbar as a command, without the app.

    npm install --global metalbar
    metal-agent --help

It needs Node.js ${node} and nothing else. \`llmkube-metal-agent\` is the same command by the name that LLMKube's agent has.
`
