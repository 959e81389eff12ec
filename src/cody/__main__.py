from cody.cli import main

main()
