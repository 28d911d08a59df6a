import { Button } from '../components/button.tsx'
import { Sentence } from '../components/sentence.tsx'
import { useSnapshot, useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { usePressed } from '../use-pressed.ts'
import { firstRunWords } from '../words/first-run.ts'
import { Answer } from './answer.tsx'
import { Row, RowButtons, RowNote } from './first-run-row.tsx'

const about = 'address'

/** Where pods reach this machine; where that is not known, what it could be. */
export function AddressRow() {
  const { address, message } = useSnapshot(({ host }) => host)
  const { answer } = useAnswer({ name: 'hostAddresses' }, [address])
  if (address !== undefined) {
    const network = answer?.addresses.find(({ inUse }) => inUse)?.interface
    return <Row name={firstRunWords.address} value={firstRunWords.at(address, network)} status="done" />
  }
  const fit = answer?.addresses.filter(({ unfit }) => unfit === undefined) ?? []
  return (
    <Row name={firstRunWords.address} value={firstRunWords.noAddress} status="failed">
      {fit.length === 0 && (
        <RowNote>
          <Sentence text={message} />
        </RowNote>
      )}
      <RowButtons>
        {fit.map((one) => (
          <Use key={one.address} address={one.address}>
            {firstRunWords.useAddress(one.address, one.interface)}
          </Use>
        ))}
      </RowButtons>
      <Answer about={about} />
    </Row>
  )
}

function Use({ address, children }: { readonly address: string; readonly children: string }) {
  const ask = useWindow((state) => state.ask)
  const command = { name: 'setHostAddress', address } as const
  return (
    <Button {...usePressed(about, command)} onPress={() => void ask(about, command)}>
      {children}
    </Button>
  )
}
