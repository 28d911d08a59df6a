import { glob, mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { Arch, build, Platform, type CliOptions } from 'electron-builder'
import { packageVersion } from '../../build-info.ts'
import { bundledPackages, type BundledPackage } from '../bundled-packages.ts'
import { noticesOfApp } from '../notices.ts'
import { e2eSuffix, flavourConfig, mainOf, signedByNobody, type Flavour } from './flavours.ts'

const root = path.join(import.meta.dirname, '../../..')

export type MacArch = 'arm64' | 'x64'

export interface AppBuild {
  readonly flavour: Flavour
  readonly archs: readonly MacArch[]
  /** `dir` is the app alone; only a Mac makes the others. */
  readonly targets: readonly ('dir' | 'dmg' | 'zip')[]
  /** Holds `metal-agent-darwin-ARCH/metal-agent` of each architecture. */
  readonly commands: string
  readonly output: string
  /** Holds an Electron.app; undefined = electron-builder downloads it. */
  readonly electronDist: string | undefined
  /** Address of the folder with `latest-mac.yml`; undefined = the app is told of no updates. */
  readonly updates: string | undefined
  /** A release is signed as a person, and fails where there is no identity for that; else it is for this Mac alone. */
  readonly mustSign: boolean
}

/** Packs what `npm run build` has built. @returns the files and folders that came of it. */
export async function buildApp(wanted: AppBuild): Promise<string[]> {
  // `electron-builder.yml` names it, as a path from the project's folder.
  process.env['METALBAR_COMMANDS'] = path.relative(root, path.resolve(wanted.commands))
  const notices = path.resolve(wanted.output, 'THIRD_PARTY_NOTICES.txt')
  await mkdir(path.dirname(notices), { recursive: true })
  await writeFile(notices, noticesOfApp(await packagesOfApp(root)))
  process.env['METALBAR_NOTICES'] = path.relative(root, notices)
  return build(optionsOf(wanted))
}

/** As `npm run build` wrote them down: of the main process, its workers, the preload script and the window. */
export async function packagesOfApp(projectDir: string): Promise<readonly BundledPackage[]> {
  const files: string[] = []
  for await (const file of glob('out/{main,renderer}/**/*.licences.json', { cwd: projectDir }))
    files.push(path.join(projectDir, file))
  const parts = ['main', 'preload', 'renderer', 'worker']
  const missing = parts.filter((part) => !files.some((file) => file.endsWith(`${part}.licences.json`)))
  if (missing.length > 0)
    throw new Error(`The licences of ${missing.join(' and ')} are missing in out/: run npm run build.`)
  return bundledPackages(files)
}

function optionsOf({ flavour, archs, targets, output, electronDist, updates, mustSign }: AppBuild): CliOptions {
  const isRelease = flavour === 'release'
  return {
    projectDir: root,
    targets: Platform.MAC.createTarget([...targets], ...archs.map((arch) => Arch[arch])),
    // What is uploaded, and when, is decided by the release workflow.
    publish: 'never',
    config: {
      ...flavourConfig[flavour],
      ...(isRelease && !mustSign && { mac: signedByNobody }),
      directories: { output: path.resolve(output) },
      forceCodeSigning: isRelease && mustSign,
      publish: isRelease && updates !== undefined ? [{ provider: 'generic', url: updates }] : null,
      ...(electronDist !== undefined && { electronDist: path.resolve(electronDist) }),
      // Electron names the keychain item, the menus and the folder of crash reports after the packed manifest, not after the file.
      ...(!isRelease && {
        extraMetadata: {
          version: `${packageVersion()}${e2eSuffix}`,
          main: mainOf.e2e,
          productName: flavourConfig.e2e.productName,
        },
      }),
    },
  }
}

/** Throws where it is no address that an app may take its own code from. */
export function updatesFrom(text: string | undefined): string | undefined {
  if (text === undefined || text === '') return undefined
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol === 'https:' && url.username === '' && url.password === '') return url.href
  throw new Error('METALBAR_UPDATES must be an https:// address without a password, or be left out.')
}
