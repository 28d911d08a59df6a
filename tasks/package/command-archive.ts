import { copyFile, rm, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { packageVersion } from '../build-info.ts'
import { licenceOfNode, packFolder } from './archive.ts'
import type { BundledPackage } from './bundled-packages.ts'
import { nodeFoundation } from './foundations.ts'
import { goAgentName } from './homebrew.ts'
import { manPage } from './man-page.ts'
import { thirdPartyNotices } from './notices.ts'
import { lockedIntegrity, softwareBillOfMaterials } from './sbom.ts'

const root = path.join(import.meta.dirname, '../..')

/** Node.js that the command in the folder was made of; its version is that of the one that runs this. */
export interface PackedCommand {
  readonly folder: string
  readonly packages: readonly BundledPackage[]
  readonly node: string
}

/** Puts what belongs to a command beside it and packs both; answers the archive and the bill of materials beside it. */
export async function packCommand({ folder, packages, node }: PackedCommand): Promise<readonly string[]> {
  const name = path.basename(folder)
  await writeFile(
    path.join(folder, 'THIRD_PARTY_NOTICES'),
    thirdPartyNotices(process.version, await licenceOfNode(), packages),
  )
  await writeFile(path.join(folder, 'README.md'), readme(name.includes('darwin')))
  const platform = name.includes('darwin') ? 'darwin' : 'linux'
  await writeFile(path.join(folder, 'metal-agent.1'), manPage(packageVersion(), platform))
  await copyFile(path.join(root, 'LICENSE'), path.join(folder, 'LICENSE'))
  await rm(path.join(folder, goAgentName), { force: true })
  await symlink('metal-agent', path.join(folder, goAgentName))
  const archive = await packFolder(folder)
  const bill = `${folder}.cdx.json`
  const foundations = [await nodeFoundation(node, process.version)]
  const integrity = await lockedIntegrity(root)
  await writeFile(bill, softwareBillOfMaterials({ name, version: packageVersion(), foundations, packages, integrity }))
  return [archive, bill]
}

const readme = (isForMac: boolean): string => `# metal-agent

Makes a machine a Kubernetes inference node: the agent of Metalbar as one file, without the app. It needs nothing beside it. \`llmkube-metal-agent\` is the same
command by the name that LLMKube's agent has.

    ./metal-agent --help
    ./metal-agent selftest
${isForMac ? forMac : ''}
Licences: LICENSE of metal-agent, THIRD_PARTY_NOTICES of what is in it.
`

const forMac = `
macOS asks Apple about a program that a browser has downloaded, and a release is known there. One that you have built yourself is not: it
starts after

    codesign --sign - --force metal-agent
    xattr -d com.apple.quarantine metal-agent

of which the second is for a file that was downloaded.
`
