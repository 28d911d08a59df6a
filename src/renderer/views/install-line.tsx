import { Command } from '../components/buttons.tsx'
import { firstRunWords } from '../words/first-run.ts'

/** The line that installs a runtime which is not here, to be run in a terminal. */
export const InstallLine = ({ name, line }: { readonly name: string; readonly line: string }) => (
  <>
    <p>{firstRunWords.installs}</p>
    <Command text={line} copyLabel={firstRunWords.copyInstall(name)} />
  </>
)
