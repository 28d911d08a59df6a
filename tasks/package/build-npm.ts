import { buildNpmPackage } from './npm-package.ts'

const [folder] = process.argv.slice(2)
if (folder === undefined) throw new Error('Name the folder that the npm package is written into.')
process.stdout.write(`${await buildNpmPackage(folder)}\n`)
