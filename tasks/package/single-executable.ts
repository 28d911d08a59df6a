import { chmod, copyFile, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { packageVersion } from '../build-info.ts'
import type { CommandBundle } from './command-bundle.ts'
import { addTextSection, commandId, commandInfo, infoSection, writeUuid } from './mach-o.ts'

const launcher = path.join(import.meta.dirname, '../../bin/metal-agent')
/** Node.js looks for its blob where this text is followed by `:1`: https://nodejs.org/docs/latest-v24.x/api/single-executable-applications.html */
const sentinel = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2'

/** Writes what Node.js finds in a self-contained command. `node` makes it, and only Node.js of the same version reads it; answers the file. */
export async function writeBlob(bundle: CommandBundle, node: string): Promise<string> {
  // Relative to the folder, so that the file names nothing of the machine that built it.
  const within = (file: string): string => path.relative(bundle.folder, file)
  const blob = path.join(bundle.folder, 'sea.blob')
  const config = {
    main: within(bundle.main),
    output: within(blob),
    assets: Object.fromEntries(Object.entries(bundle.assets).map(([name, file]) => [name, within(file)])),
    disableExperimentalSEAWarning: true,
    // It would belong to one processor and one version of V8, and cost memory.
    useCodeCache: false,
    execArgv: await optionsOfLauncher(),
    // Others follow as `--node-options=…`, which the gateway is started with.
    execArgvExtension: 'cli',
  }
  await writeFile(path.join(bundle.folder, 'sea.json'), JSON.stringify(config))
  await execa(node, ['--experimental-sea-config', 'sea.json'], { cwd: bundle.folder })
  return blob
}

export interface Injection {
  readonly blob: string
  /** Node.js of the platform that the command is for, which gets the blob. */
  readonly node: string
  readonly isMachO: boolean
  readonly output: string
}

/** Writes Node.js and the blob as one file. A Mac starts it only after `codesign` there. */
export async function inject({ blob, node, isMachO, output }: Injection): Promise<void> {
  await copyFile(node, output)
  await chmod(output, 0o755)
  // Changing a signed file voids its signature: Node.js's guide takes it off first, which only a Mac can.
  if (isMachO && process.platform === 'darwin') await execa('codesign', ['--remove-signature', output])
  const machO = isMachO ? ['--macho-segment-name', 'NODE_SEA'] : []
  const options = { preferLocal: true, localDir: import.meta.dirname }
  await execa('postject', [output, 'NODE_SEA_BLOB', blob, '--sentinel-fuse', sentinel, ...machO], options)
  if (!isMachO) return
  await addTextSection(output, infoSection, Buffer.from(commandInfo(packageVersion())))
  await writeUuid(output, commandId)
}

/** What `bin/metal-agent` gives Node.js to keep it small in memory. */
export async function optionsOfLauncher(): Promise<string[]> {
  const [, options] = /exec "\$node" ((?:--\S+[\s\\]+)+)"\$bundle"/.exec(await readFile(launcher, 'utf8')) ?? []
  if (options === undefined) throw new Error(`${launcher} no longer starts "$node" with options and "$bundle".`)
  return options.split(/[\s\\]+/).filter((option) => option !== '')
}
