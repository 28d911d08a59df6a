import type { InstallationHost } from '../../installation/installation-host.ts'
import { findGoAgentJobs } from '../../installation/migration/go-agent-job.ts'

/** One sentence for each job of LLMKube's Go agent on this Mac, beside which an installation of ours serves only what that does not. */
export async function notesOfGoAgent(host: InstallationHost): Promise<string[]> {
  if (host.platform !== 'darwin') return []
  return (await findGoAgentJobs(host, undefined)).flatMap((reading) =>
    reading.ok
      ? [
          `LLMKube's Go agent is installed too (${reading.job.label}, ${reading.job.file}), and its services are left alone: metal-agent migrate moves them to this agent, with one restart of each model.`,
        ]
      : [],
  )
}
